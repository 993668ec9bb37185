"""Chapter 18: rare words."""

import numpy as np
from register import Chapter, claim

chapter = Chapter(
    "18",
    "trained kinds TwoLevel two_level_epoch in_buckets five_words probabilities "
    "perplexity ahead TRAIN VALIDATION TEST K V falling kneser_ney bigram shares",
)
SEEDS = range(3)


@claim(
    lambda n: (
        n["LSTM, <unk>"].low > n["five words, <unk>"].high
        and n["LSTM, all"].high < n["five words, all"].low
        and n["ahead, marks"].low > 4 * n["error, marks"].high
        and n["ahead, <unk>"].high < -2 * n["error, <unk>"].high
        and max(map(abs, n["ahead, 2 to 10"])) < 2 * n["error, 2 to 10"].low
        and max(map(abs, n["ahead, more than 100"])) < 2 * n["error, more than 100"].low
        and max(map(abs, n["ahead, 11 to 100"])) < 2 * n["error, 11 to 100"].low
        and min(n["LSTM, 2 to 10"].low, n["five words, 2 to 10"].low) > chapter.V
        and n["their mean"].high < min(n["LSTM, all"].low, n["five words, all"].low)
        and n["tied, no dropout, best epoch"].high < 10
        and n["not tied, no dropout, best epoch"].high < 10
        and n["not tied, no dropout, test"].low  # above all nine: by chance 1 / 220
        > max(n[f"{k} dropout, test"].high for k in ("tied,", "tied, no", "not tied,"))
    ),
    show=".1f",
)
def networks():
    """Three LSTMs beside five counted words: on marks they have {LSTM, marks:.1f}
    against {five words, marks:.1f}, on words that stand more than 100 times in the
    training text {LSTM, more than 100:.1f} against {five words, more than 100:.1f}, on
    those of 11 to 100 times {LSTM, 11 to 100:.0f} against {five words, 11 to 100:.0f},
    on those of 2 to 10 times {LSTM, 2 to 10:,.0f} against {five words, 2 to 10:,.0f},
    on `<unk>` {LSTM, <unk>:.1f} against {five words, <unk>:.1f}, over all
    {LSTM, all:.2f} against {five words, all:.2f}.

    On marks they are ahead by {ahead, marks:.2f} nats, with a standard error of
    {error, marks:.2f}; on words of more than 100 times by {ahead, more than 100:.2f},
    with {error, more than 100:.2f}; on words of 11 to 100 times by
    {ahead, 11 to 100:.2f}, with {error, 11 to 100:.2f}; on words of 2 to 10 times by
    {ahead, 2 to 10:.2f}, with {error, 2 to 10:.2f}; on `<unk>` by {ahead, <unk>:.2f},
    with {error, <unk>:.2f}.

    So on this text the networks win on marks and lose on `<unk>`. On all other words,
    frequent or rare, no lead is as large as two standard errors: there this text does
    not tell.

    Three seeds each, the training text with the weights of the best epoch: with neither
    {not tied, no dropout, training:.1f}, with tying alone
    {tied, no dropout, training:.1f}, with dropout alone
    {not tied, dropout, training:.1f}, with both {tied, dropout, training:.1f}. The test
    text: with both {tied, dropout, test:.1f}, with tying alone
    {tied, no dropout, test:.1f}, with dropout alone {not tied, dropout, test:.1f}, with
    neither {not tied, no dropout, test:.1f}. After the last epoch these are
    {tied, dropout, last epoch:.1f}, {tied, no dropout, last epoch:.1f},
    {not tied, dropout, last epoch:.1f} and {not tied, no dropout, last epoch:.1f}.

    Both kinds without dropout turn round: from some epoch on their validation
    perplexity rises

    The network with neither is the worst on the test text, also with the weights of its
    best epoch.

    Three networks' votes with five counted words have {their mean:.1f}.
    """
    counted = np.exp(chapter.five_words.log_probabilities(chapter.TEST)[1:])
    buckets = chapter.in_buckets()
    found = {
        f"five words, {bucket}": chapter.perplexity(counted[here])
        for bucket, here in buckets.items()
    } | {"words, 2 to 10": buckets["2 to 10"].sum()}
    for name, more in {"tied, dropout": {}, **chapter.kinds}.items():
        for seed in SEEDS:
            model, curve, last = chapter.trained(seed, **more)
            p = chapter.probabilities(model, chapter.TEST)
            values = {
                f"{name}, test": chapter.perplexity(p),
                f"{name}, last epoch": last,
                f"{name}, best epoch": 1 + np.argmin(curve),
                f"{name}, training": chapter.perplexity(
                    chapter.probabilities(model, chapter.TRAIN)
                ),
            }
            if name == "tied, dropout":
                for bucket, here in buckets.items():
                    mean, error = chapter.ahead(p[here], counted[here])
                    values |= {
                        f"LSTM, {bucket}": chapter.perplexity(p[here]),
                        f"ahead, {bucket}": mean,
                        f"error, {bucket}": error,
                    }
                values["their mean"] = chapter.perplexity((p + counted) / 2)
            for key, value in values.items():
                found.setdefault(key, []).append(value)
    return found


@claim(
    lambda n: (
        n["two levels"].mean < n["full"].mean and n["two levels"].high < n["full"].high
    ),
    show=".1f",
)
def two_levels():
    """Three seeds each, the test text: the full softmax has {full:.1f}, the two levels
    {two levels:.1f}, with {fewer products:.1f} times fewer products in the softmax of
    the training, counted and not timed. We see no cost here.
    """
    found = {}
    for seed in SEEDS:
        for name, settings in (
            ("full", ()),
            ("two levels", (chapter.TwoLevel, chapter.two_level_epoch)),
        ):
            model, _, _ = chapter.trained(seed, *settings)
            p = chapter.probabilities(model, chapter.TEST)
            found.setdefault(name, []).append(chapter.perplexity(p))
    rare = 1 - chapter.falling[: chapter.K].sum() / chapter.falling.sum()
    products = chapter.K + 1 + rare * (chapter.V - chapter.K)
    return found | {"fewer products": chapter.V / products}


@claim(
    lambda n: (
        max(n[f"Kneser and Ney {D}"].high for D in (60, 75, 90))
        < min(n[f"over unigram {D}"].low for D in (60, 75, 90))
        < max(n[f"over unigram {D}"].high for D in (60, 75, 90))
        < min(n[f"bigram {k}"].low for k in (10, 18, 32))
        and n["bigram 32"].low - n["over unigram 75"].high
        > n["over unigram 75"].low - n["Kneser and Ney 75"].high
        and n["bigram 32, validation"].mean
        == min(n[f"bigram {k}, validation"].mean for k in (10, 18, 32))
        and n["Kneser and Ney 75, validation"].mean
        == min(n[f"Kneser and Ney {D}, validation"].mean for D in (60, 75, 90))
    ),
    show=".1f",
)
def counting():
    """On the test text Kneser and Ney have {Kneser and Ney 60:.1f},
    {Kneser and Ney 75:.1f} and {Kneser and Ney 90:.1f} with these three discounts, the
    bigram of chapter 17 {bigram 10:.1f}, {bigram 18:.1f} and {bigram 32:.1f} with 10,
    18 and 32 imagined words. With the same discounts and the unigram as the fallback
    the perplexity is {over unigram 60:.1f}, {over unigram 75:.1f} and
    {over unigram 90:.1f}.

    Of these, the strength of 32 and the discount of 0.75 are the best on the validation
    text. From {bigram 32:.1f} with that strength, this discount leads to
    {over unigram 75:.1f}, and the fallback from there to {Kneser and Ney 75:.1f}.
    """
    shares = np.bincount(chapter.TRAIN, minlength=chapter.V) / len(chapter.TRAIN)
    tables = {
        f"bigram {k}": chapter.bigram(chapter.TRAIN, shares, k) for k in (10, 18, 32)
    }
    for percent in (60, 75, 90):
        text = chapter.TRAIN, chapter.V
        tables |= {
            f"Kneser and Ney {percent}": chapter.kneser_ney(*text, percent / 100),
            f"over unigram {percent}": chapter.discounted(*text, percent / 100, shares),
        }
    texts = {"": chapter.TEST, ", validation": chapter.VALIDATION}
    return {
        f"{name}{which}": chapter.perplexity(p[ids[:-1], ids[1:]])
        for name, p in tables.items()
        for which, ids in texts.items()
    }
