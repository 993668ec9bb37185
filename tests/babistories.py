"""A story or two of each bAbI task, in the layout of its files, made by the tests, and
what networks that are none do with stories.
"""

import itertools

from corpora_files import write

# as the files have it, a space before the tab in some tasks, none in others
STORIES = {
    1: """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Mary went back to the hallway.
5 John moved to the garden.
6 Where is John? \tgarden\t5""",
    2: """1 Mary got the milk there.
2 Mary went to the garden.
3 Where is the milk? \tgarden\t1 2
4 Mary dropped the milk.
5 Mary moved to the office.
6 Where is the milk? \tgarden\t4 2""",
    3: """1 Mary got the milk.
2 Mary went to the garden.
3 Mary travelled to the office.
4 Where was the milk before the office? \tgarden\t1 3 2""",
    4: """1 The hallway is east of the bathroom.
2 The bedroom is west of the bathroom.
3 What is the bathroom east of?\tbedroom\t2""",
    5: """1 Bill travelled to the office.
2 Fred gave the football to Bill.
3 What did Fred give to Bill? \tfootball\t2
4 Bill gave the football to Mary.
5 Who received the football? \tMary\t4""",
    6: """1 Mary moved to the bathroom.
2 Is Mary in the bathroom? \tyes\t1
3 Mary moved to the garden.
4 Is Mary in the bathroom? \tno\t3""",
    7: """1 Mary got the milk there.
2 How many objects is Mary carrying? \tone\t1
3 Mary dropped the milk.
4 How many objects is Mary carrying? \tnone\t1 3""",
    8: """1 Mary got the milk there.
2 What is Mary carrying? \tmilk\t1
3 Mary got the apple there.
4 What is Mary carrying? \tmilk,apple\t1 3""",
    9: """1 Mary is no longer in the bedroom.
2 Daniel moved to the hallway.
3 Is Mary in the bedroom? \tno\t1
4 Is Daniel in the hallway? \tyes\t2""",
    10: """1 Fred is either in the school or the park.
2 Is Fred in the park? \tmaybe\t1
3 Fred went to the cinema.
4 Is Fred in the cinema? \tyes\t3""",
    11: """1 Daniel was in the kitchen.
2 Then he went to the studio.
3 Where is Daniel? \tstudio\t1 2""",
    12: """1 Mary and Jeff went to the kitchen.
2 Then Jeff went to the park.
3 Where is Mary? \tkitchen\t1
4 Where is Jeff? \tpark\t2""",
    13: """1 Daniel and Sandra journeyed to the office.
2 Then they went to the garden.
3 Where is Daniel? \tgarden\t1 2""",
    14: """1 This morning Mary moved to the kitchen.
2 Yesterday Mary journeyed to the school.
3 Where was Mary before the kitchen? \tschool\t1 2""",
    15: """1 Sheep are afraid of wolves.
2 Gertrude is a sheep.
3 What is gertrude afraid of?\twolf\t2 1
4 What is gertrude afraid of?\twolf\t2 1""",
    16: """1 Lily is a swan.
2 Lily is white.
3 Greg is a swan.
4 What color is Greg?\twhite\t3 1 2""",
    17: """1 The triangle is above the pink rectangle.
2 The blue square is to the left of the triangle.
3 Is the pink rectangle to the right of the blue square?\tyes\t1 2
4 Is the blue square below the pink rectangle?\tno\t2 1""",
    18: """1 The box fits inside the suitcase.
2 The chocolate fits inside the box.
3 Does the suitcase fit in the chocolate?\tno\t2 1""",
    19: """1 The garden is west of the bathroom.
2 The bedroom is north of the hallway.
3 The bathroom is north of the bedroom.
4 How do you go from the hallway to the bathroom?\tn,n\t2 3""",
    20: """1 Sumit is tired.
2 Where will sumit go?\tbedroom\t1
3 Sumit went back to the bedroom.
4 Why did sumit go to the bedroom?\ttired\t1""",
}


def texts(task, times=12):
    """The text of a file: its story so many times."""
    return f"{STORIES[task]}\n" * times


def write_babi(folder, changes=None, version="v1.2", variant="en", times=12):
    """The twenty tasks in a data folder; changes: {(task, part): another text}."""
    name = {"v1.2": "tasks_1-20_v1-2", "v1.1": "tasksv11"}[version]
    changes = changes or {}
    files = {}
    for task, part in itertools.product(STORIES, ("train", "test")):
        if text := changes.get((task, part), texts(task, times)):
            files[f"{name}/{variant}/qa{task}_a-name_{part}.txt"] = text
    return write(folder, files)
