"""Your solved exercises, and a small file of them to hand in.

    tinyrmc progress                                 chapter by chapter
    tinyrmc progress --out anna.progress.json        with your answers, to hand in
    tinyrmc progress --verify anna.progress.json     is it as it was written?

The digest in such a file shows that it was cut short or edited by hand; it is no
secret, so it proves no more. With the key of the teacher who signed the file (tinyrmc
grade --key), --verify shows that this teacher found right what stands there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError, UserError, counted, why
from .commands import Parser, program


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(program("progress"), (__doc__ or "").rstrip())
    add = parser.add_argument
    says = "write your progress and answers there"
    add("--out", type=Path, metavar="FILE", help=says)
    says = "your name in that file (default: the file's)"
    add("--learner", metavar="NAME", help=says)
    add("--verify", type=Path, metavar="FILE", help="look whether a file is unchanged")
    says = "a teacher's key: --verify asks for its signature, too"
    add("--key", type=Path, metavar="FILE", help=says)
    options = parser.parse_args(argv)
    if options.verify and options.out:
        raise UsageError("--out writes a file, --verify reads one: give one of them")
    if options.key and not options.verify:
        raise UsageError("--key belongs to --verify; tinyrmc grade --key signs")
    from ..course import proof
    from ..course.overview import progress

    if options.verify:
        return _verify(options.verify, options.key)
    if options.out:
        name = options.learner or options.out.name.partition(".")[0]
        contents = proof.progress_of(name)
        proof.write(contents, options.out)
        solved = counted(len(contents["solved"]), "solved exercise")
        answers = counted(len(contents["answers"]), "answer")
        print(f"{options.out}: {solved}, {answers}")
        return 0
    progress()
    return 0


def _verify(file: Path, key: Path | None) -> int:
    from ..course import proof

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        says = why(problem) if isinstance(problem, OSError) else "it is no text"
        raise UserError(f"{file} cannot be read: {says}") from None
    try:
        found = proof.read(text, proof.read_key(key) if key else None)
    except proof.Refused as problem:
        raise UserError(f"{file}: {problem}") from None
    solved = counted(len(found["solved"]), "solved exercise")
    says = "signed with this key" if key else "as it was written (which proves no more)"
    print(f"{file}: {found['learner']}, {solved}; {says}")
    return 0
