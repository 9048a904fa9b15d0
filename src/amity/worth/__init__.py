"""Was joining worth it? The arithmetic of the answer, for one silo and for all of them together.

    paired.py       how much better one model is than another, on the same test examples, with its interval: by
                    accuracy and by R2
    shares.py       the same by any other metric: balanced accuracy, F1, AUROC, RMSE, MAE
    judgement.py    what is said of such a difference: gains, better alone, no clear difference
    consortium.py   how many silos gain and lose, whether that is more than chance would give, and the answer in words
    contents.py     what is written down of it, as types

The report of runs (`amity.report.view_worth`) and each silo of a real federation (`amity.site.results`) use the same
rules, so that they cannot come to different answers. docs/verdicts.md has how often these rules are wrong, as measured.
"""
