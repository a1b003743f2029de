"""Dice that the paper prints (Zhang and Zhuang), by task and recipe: to stand beside ours, never mixed with it.

They were measured with other data splits, another backbone and other budgets than any study here.
"""

from __future__ import annotations

PAPER_PLACES: dict[str, tuple[str, ...]] = {
    "acdc": ("ED LV", "ED MYO", "ED RV", "ES LV", "ES MYO", "ES RV"),
    "mscmr": ("LV", "MYO", "RV"),
    "mmwhs": ("LV", "MYO", "RV", "LA", "RA", "AO", "PA", "whole heart"),
}
"""What the numbers of a task are of, in the paper's order; then follows the average, where it prints one."""

PAPER: dict[str, dict[str, str]] = {
    "acdc": {  # Tables II to IV and VI, in which a recipe has the same numbers wherever it stands
        "paper_1": ".767±.198 .740±.082 .199±.224 .651±.215 .722±.108 .115±.196 .534",
        "paper_2": ".939±.047 .813±.046 .742±.185 .841±.140 .786±.078 .532±.232 .778",
        "paper_3": ".952±.027 .844±.040 .792±.124 .879±.110 .814±.078 .589±.186 .814",
        "paper_4": ".950±.031 .852±.031 .852±.091 .863±.134 .842±.056 .661±.167 .839",
        "paper_5": ".952±.035 .872±.041 .894±.070 .861±.156 .865±.063 .771±.146 .871",
        "paper_6": ".956±.025 .872±.040 .895±.068 .873±.138 .864±.067 .794±.119 .877",
        "paper_dcl_mmee": ".962±.018 .883±.026 .905±.055 .903±.094 .889±.029 .810±.107 .893",
        "ce_dice": ".947±.027 .832±.059 .790±.140 .846±.114 .813±.054 .598±.196 .807",
        "mmee": ".959±.030 .885±.032 .908±.066 .892±.107 .883±.029 .768±.149 .884",
        "dcl_full_20": ".965±.012 .876±.032 .924±.036 .905±.105 .883±.040 .791±.170 .892",
        "dcl_full_40": ".968±.012 .895±.024 .922±.041 .912±.090 .897±.029 .810±.134 .902",
        "dcl_full_60": ".962±.025 .885±.025 .912±.061 .914±.079 .895±.025 .808±.145 .897",
        "dcl_full_80": ".965±.017 .892±.025 .922±.040 .927±.070 .900±.031 .815±.193 .905",
        "dcl_full": ".962±.028 .891±.025 .920±.055 .917±.082 .898±.030 .858±.082 .909",
        "unet_f_few": ".925±.066 .840±.067 .811±.094 .849±.126 .852±.053 .721±.157 .834",
        "unet_f": ".961±.016 .881±.026 .901±.063 .908±.063 .888±.025 .786±.093 .889",
    },
    "mscmr": {
        "paper_2": ".658±.217 .556±.081 .262±.102 .492",
        "paper_6": ".893±.048 .774±.049 .769±.140 .812",
        "paper_dcl_mmee": ".897±.034 .786±.050 .769±.101 .817",
        "ce_dice": ".518±.241 .590±.080 .531±.140 .546",
        "mmee": ".889±.059 .750±.092 .667±.092 .769",
        "dcl_full": ".913±.038 .811±.051 .810±.119 .845",
        "unet_f_few": ".754±.097 .615±.090 .541±.159 .637",
        "unet_f": ".814±.120 .693±.008 .659±.110 .722",
    },
    "mmwhs": {
        "paper_2": ".864±.209 .743±.210 .772±.176 .822±.093 .805±.112 .821±.150 .587±.269 .803±.123",
        "paper_6": ".893±.090 .800±.088 .876±.103 .787±.134 .867±.083 .795±.157 .714±.177 .857±.061",
        "dcl_full": ".919±.039 .840±.050 .903±.061 .847±.070 .884±.037 .880±.063 .807±.107 .887±.032",
        "unet_f_few": ".879±.138 .775±.177 .831±.180 .834±.120 .856±.088 .845±.167 .754±.166 .840±.135",
    },
}


def paper_scores(task: str, recipe: str) -> dict[str, tuple[float, float | None]]:
    """
    Mean and standard deviation, ``None`` where none is printed, that the paper prints of a recipe of a task, by place
    (``ED LV``, ``LV``, ..., ``average``); nothing for a task or recipe that it does not have.
    """
    text = PAPER.get(task, {}).get(recipe)
    if text is None:
        return {}
    scores = [tuple(map(float, word.split("±"))) for word in text.split()]
    places = [*PAPER_PLACES[task], "average"][: len(scores)]
    return {
        place: (score[0], score[1] if len(score) > 1 else None) for place, score in zip(places, scores, strict=True)
    }
