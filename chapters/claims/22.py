"""Chapter 22: partially observed worlds. The numbers are of committed results."""

from register import claim

from tinyrmc import course

NAMES = {"rmc": "RMC", "lstm": "LSTM", "conv_lstm": "ConvLSTM", "feedforward": "none"}


def ends(name, metric):
    """What each core's runs have in the test, and the references."""
    groups = course.summary(name)["groups"]
    found = {
        NAMES[group["config"]["model"]["core"]]: [run[metric] for run in group["runs"]]
        for group in groups
    }
    return found, groups[0]["references"][metric]


@claim(
    lambda n: (
        n["none"].high + 0.06 < min(n["RMC"].low, n["LSTM"].low, n["ConvLSTM"].low)
        and n["RMC"].mean - n["any box"].mean < 0.03
        and n["LSTM"].mean - n["any box"].mean < 0.03
        and n["LSTM, convolutions"].mean - n["RMC, convolutions"].mean < 0.06
    ),
    show=".1%",
)
def box_world():
    """In a thirteenth of these steps this project's agents, two seeds each, solve
    {RMC:.1%} with the RMC, {LSTM:.1%} with an LSTM, {ConvLSTM:.1%} with a ConvLSTM,
    which alone sees the board through convolutions, and {none:.1%} without a memory.
    (With the same convolutions, one run each: RMC {RMC, convolutions:.1%}, LSTM
    {LSTM, convolutions:.1%}.) But a player who opens whatever box fits has
    {any box:.1%}, and each number has an error of 3.
    """
    found, floors = ends("box_world_full", "test_solved")
    same, _ = ends("box_world_full_conv", "test_solved")
    found |= {f"{core}, convolutions": runs for core, runs in same.items()}
    return found | {"any box": floors["opening any box"]}


@claim(
    lambda n: (
        abs(n["LSTM"].mean - n["none"].mean) < 14 and n["RMC"].mean < n["none"].mean
    ),
    show=".0f",
)
def mini_pacman():
    """ours {RMC:.0f} and {LSTM:.0f}, and {none:.0f} without a memory, each with an
    error of 14: of a memory's worth there, at 31 million steps, these runs show
    nothing.
    """
    return ends("mini_pacman", "test_score")[0]
