"""Claims of papers that can be checked on random instances, and regret bounds with explicit constants.

>>> from tabpo.theory import CLAIMS, check
>>> print(check(CLAIMS["dapo_p3"], n_instances=10_000, seed=1))  # doctest: +SKIP

A report says whether the claim held, how tight it is and which instance was the worst.
"""

from tabpo.theory import bobw, bounds, dapo, lemmas, process
from tabpo.theory.claims import Claim, ClaimReport, check

CLAIMS: dict[str, Claim] = {
    claim.name: claim for claim in (*dapo.CLAIMS, *lemmas.CLAIMS, *process.CLAIMS, *bobw.CLAIMS)
}

__all__ = ["CLAIMS", "Claim", "ClaimReport", "bounds", "check"]
