"""The stories of one task as arrays, for chapters 19 and 20."""

from __future__ import annotations

import numpy as np


class Reading:
    """Questions to learn from and to test with, as counts of words.

    `arrays[part]` has, for each of S questions: once and weighted (S, N, W) of its N
    memories, the newest first; the same of the question, (S, W); and the number of the
    answer, (S,). The W columns are the V words and, behind them, the N ages: a memory
    counts its age as one word more.
    """

    def __init__(self, told, task, newest_first):
        self.stories = {part: told.stories(task, part) for part in ("train", "test")}
        learnt = self.stories["train"]
        texts = [t for s in learnt for t in (*s.sentences, s.question, (s.answer,))]
        self.words = sorted({word for text in texts for word in text})
        self.slots = max(len(story.sentences) for story in learnt)
        self.newest_first = newest_first
        self.arrays = {part: self.read(part) for part in self.stories}

    def count(self, text):
        """once and weighted (W,) of a text."""
        once, weighted = np.zeros((2, len(self.words) + self.slots))
        for j, word in enumerate(text, 1):
            number = self.words.index(word)
            once[number] += 1
            weighted[number] += j / len(text) - 0.5
        return once, weighted

    def read(self, part):
        stories = self.stories[part]
        S, N, W = len(stories), self.slots, len(self.words) + self.slots
        memories = np.zeros((2, S, N, W))
        for s, story in enumerate(stories):
            counted = [(np.zeros(W), np.zeros(W)), *map(self.count, story.sentences)]
            order = self.newest_first(np.arange(1, len(counted)), N)
            for age, number in enumerate(order):
                memories[:, s, age] = counted[number]
                memories[0, s, age, len(self.words) + age] = number > 0
        asked = np.array([self.count(s.question) for s in stories]).swapaxes(0, 1)
        answers = np.array([self.words.index(s.answer) for s in stories])
        return *memories, *asked, answers
