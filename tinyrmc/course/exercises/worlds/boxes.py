"""All that can happen in a level of BoxWorld, for chapter 27."""

import numpy as np


def graph(world, number):
    """All states of a level, the start first: following and wins (S, actions), and what
    is seen in each, window and key, as bytes (S,).

    A step that ends the level without the gem leads back to where it was made.
    """
    todo = world.start_levels(np.array([number]))
    known, following, wins, seen = {_keys(todo)[0]: 0}, [], [], []
    A = world.actions
    while len(todo["place"]):
        B, names = len(todo["place"]), _keys(todo)
        looks = world.observe(todo)
        pairs = zip(looks["view"], looks["held"], strict=True)
        seen += [view.tobytes() + held.tobytes() for view, held in pairs]
        tried = {name: np.repeat(x, A, axis=0) for name, x in todo.items()}
        actions, noise = np.tile(np.arange(A), B), np.zeros((B * A, 1), np.float32)
        outcome = world.step(tried, actions, noise, keep_final=True)
        final = outcome.final | {"steps": np.zeros_like(outcome.final["steps"])}
        wins += list((outcome.reward == 10).reshape(B, A))
        new = []
        for k, name in enumerate(_keys(final)):
            if outcome.ended[k]:
                following.append(known[names[k // A]])
                continue
            if name not in known:
                known[name] = len(known)
                new.append(k)
            following.append(known[name])
        todo = {name: x[new] for name, x in final.items()}
    return np.array(following).reshape(-1, A), np.array(wins), np.array(seen, object)


def _keys(state):
    rows = zip(state["place"], state["held"], state["board"], strict=True)
    return [(int(place), int(held), board.tobytes()) for place, held, board in rows]
