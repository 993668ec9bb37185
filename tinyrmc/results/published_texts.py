"""Published test perplexities of language models.

Each is a cell, `corpus, model`, with the words for `python -m tinyrmc.train
language_modeling` that train such a model, or None.
"""

# Santoro et al. 2018, table 2, where the LSTM is that of Rae et al. 2018; and a public
# port of the RMC to WikiText-2 (github.com/L0SG/relational-rnn-pytorch).
PUBLISHED: dict[str, tuple[str, str | None]] = {
    "wikitext-103, RMC": ("31.6", "paper"),
    "wikitext-103, LSTM": ("34.3", "paper --model.core lstm"),
    "gutenberg, RMC": ("42.0", "paper --data.corpus gutenberg"),
    "gutenberg, LSTM": ("45.5", "paper --data.corpus gutenberg --model.core lstm"),
    "gigaword, RMC": ("38.3", "paper --data.corpus gigaword"),
    "gigaword, LSTM": ("43.7", "paper --data.corpus gigaword --model.core lstm"),
    "wikitext-2, RMC": ("107.2 (a port)", "wikitext2"),
    "wikitext-2, LSTM": (
        "105.6 (a port)",
        "wikitext2 --model.core lstm --model.embedding-size 300",
    ),
    # Sukhbaatar et al. 2015, table 2, of networks without a memory of words
    "ptb, RNN of 300 units": ("129", None),
    "ptb, LSTM of 100 units": ("115", None),
    "ptb, SCRN": ("115", None),
    "text8, RNN of 500 units": ("184", None),
    "text8, LSTM of 500 units": ("154", None),
    "text8, SCRN": ("161", None),
}

# The same table's memory networks: of 2 to 7 hops with 100 memories, of 6 hops with
# other numbers of memories, and the largest.
HOPS, MEMORIES = (2, 3, 4, 5, 6, 7), (25, 50, 75, 100, 125, 150)
SIZES = [(k, 100) for k in HOPS] + [(6, n) for n in MEMORIES if n != 100] + [(7, 200)]
MEMN2N = {
    "ptb": ("memn2n", (121, 122, 120, 118, 115, 114, 118, 114, 114, 112, 114, 111)),
    "text8": (
        "memn2n_text8",
        (187, 178, 162, 154, 155, 154, 163, 166, 158, 157, 154, 147),
    ),
}


def memn2n(corpus: str, hops: int, memories: int) -> str:
    """The cell of a memory network."""
    return f"{corpus}, MemN2N, {hops} hops, {memories} memories"


for _corpus, (_preset, _values) in MEMN2N.items():
    for (_hops, _memories), _value in zip(SIZES, _values, strict=True):
        words = f"{_preset} --model.hops {_hops} --model.memories {_memories}"
        PUBLISHED[memn2n(_corpus, _hops, _memories)] = str(_value), words
