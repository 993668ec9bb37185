"""Chapter 17: language modelling."""

import numpy as np
from register import Chapter, claim

chapter = Chapter(
    "17", "train lstm rmc V corpus probabilities perplexity fused VALIDATION TEST"
)
NAMES = {
    "LSTM": lambda seed: chapter.lstm(chapter.V, seed),
    "RMC": lambda seed: chapter.rmc(seed),
}

BANDS = {"word 1": (0, 1), "word 2": (1, 2), "3 to 5": (2, 5), "6 to 10": (5, 10)}
BANDS |= {"11 to 25": (10, 25), "26 to 50": (25, 50)}


def extra_nats(model, ids, T=50):
    """Extra nats of each of T words after a fresh start, beside all words before."""
    with_all, found = -np.log(chapter.probabilities(model, ids)), []
    for start in range(0, T, 10):  # five ways to cut the text
        count = (len(ids) - 1 - start) // T
        inputs, targets = (
            ids[start + k : start + k + count * T].reshape(count, T) for k in (0, 1)
        )
        logits, _ = model(inputs, model.core.initial_state(count))
        losses = chapter.fused.softmax_cross_entropy(logits, targets.ravel()).data
        before = with_all[start : start + count * T].reshape(count, T)
        found.append(losses.reshape(count, T) - before)
    return np.concatenate(found).mean(axis=0)


@claim(
    lambda n: (
        n["LSTM word 1"].low > n["RMC word 1"].high
        and n["LSTM word 2"].low > n["RMC word 2"].high
        and n["LSTM 3 to 5"].low > n["RMC 3 to 5"].high
        and min(n["LSTM 3 to 5"].low, n["RMC 3 to 5"].low) > 0.01
        and max(n["LSTM 6 to 10"].high, n["RMC 6 to 10"].high) < 0.02
        and max(abs(x) for k in n if "11 to" in k or "26 to" in k for x in n[k]) < 0.003
        and max(n["LSTM validation"].high, n["RMC validation"].high) < 43.4
    ),
    show=".3f",
)
def uses_ten_words():
    """Three seeds: the first word after a fresh start costs {LSTM word 1:.2f} nats more
    with the LSTM, {RMC word 1:.2f} with the RMC; the second {LSTM word 2:.2f} and
    {RMC word 2:.2f}; words 3 to 5 {LSTM 3 to 5:.3f} and {RMC 3 to 5:.3f}; words 6 to 10
    {LSTM 6 to 10:.3f} and {RMC 6 to 10:.3f}.

    From the eleventh word on it is {LSTM 11 to 25:.3f} and {RMC 11 to 25:.3f}.

    After ten words a fresh start shows no longer (three seeds, one rate, below 0.003
    nats). So in the mean they use about ten words at most, far fewer than a window has.

    at this one rate, whatever the reason: a fresh start costs the RMC less than the
    LSTM, in the first five words.

    Three seeds, the validation text: the LSTM {LSTM validation:.1f}, the RMC
    {RMC validation:.1f}. The test text: {LSTM test:.1f} and {RMC test:.1f}.
    """
    read = np.concatenate([chapter.VALIDATION, chapter.TEST])
    found = {}
    for name, make in NAMES.items():
        for seed in range(3):
            model = make(seed)
            chapter.train(model, seed)
            for text in ("validation", "test"):
                ids = chapter.corpus.texts[text]
                value = chapter.perplexity(chapter.probabilities(model, ids))
                found.setdefault(f"{name} {text}", []).append(value)
            more = extra_nats(model, read)
            for band, (begin, end) in BANDS.items():
                value = more[begin:end].mean()
                found.setdefault(f"{name} {band}", []).append(value)
    return found
