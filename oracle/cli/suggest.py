"""`perpetua suggest`: what the declared rows buy, before any data is read."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from oracle.cli.models import read_model
from oracle.cli.options import AsJson, ModelFile
from oracle.cli.output import figure_table, print_json, wide_console
from oracle.cli.progress import Progress
from oracle.errors import InputError, RefusedError
from oracle.planning.ensemble.model import EnsembleModel
from oracle.planning.model import Model
from oracle.planning.planner import searches
from oracle.planning.schemas import bound_in_words, range_of, schema_of
from oracle.planning.statistics.declared import declared_in_words
from oracle.planning.suggest import Offer, lines_of, nearest, offer_of

__all__ = ["refused_with_offers", "run"]

_NOTES = """\
Put any of these figures into the model file, and it has a plan; `perpetua plan` searches longer and may need a few
percent less. Where fewer sides are named, they are the first in the file's order (sides = "none" for the rest); others
cost the same. A stump's alpha is beyond the best stump's error; a classical learner releases what it learns."""

_ABOUT_TEACHERS = """\
Put any of these figures into the model file, and it has a plan. An ensemble's alpha is what noise changes, beyond what
its teachers' own votes err: fewer rows a teacher take fewer rows in all, and each errs more. `perpetua evaluate`
measures that on your rows, and how contested the votes are, by which all of this goes; with other teacher_rows it is
another share."""

_NO_TEACHERS = """\
None of these has a plan. All of it goes by how contested the votes are: `perpetua evaluate` measures that on your rows,
and another learner may be less contested."""


def run(
    model_file: ModelFile,
    rows: Annotated[
        int | None, typer.Option("--rows", help="Number of labelled rows, instead of the model file's `examples`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what your rows buy: the least epsilon and alpha, and the fewest rows, for each predictor. Reads no data."""
    model = read_model(model_file)
    if rows is not None:
        least, most = range_of(Model, "examples")
        if not least <= rows <= most:
            raise InputError("--rows", rows, f"must be {bound_in_words(schema_of(Model, 'examples'))}")
        model = msgspec.structs.replace(model, examples=rows)
    offers = _offers(lines_of(model))
    if as_json:
        asked = {"examples": model.examples, "epsilon": model.epsilon, "alpha": model.alpha, "delta": model.delta}
        print_json({"name": model.name, **asked, "offers": offers}, pretty=True)
        return
    console = wide_console()
    console.print(
        f"{model.name}: what {model.examples:,} rows buy at delta = {model.delta:g}, gamma = {model.gamma:g}\n"
    )
    console.print(_table(model, offers))
    for sentence in _in_words(model, offers):
        console.print(sentence)
    fewer = declared_in_words(model)
    if fewer:
        console.print(fewer)
    console.print(f"\n{_notes(model, offers)}")


def refused_with_offers(refusal: RefusedError, model: Model, *, as_declared: bool = True) -> RefusedError:
    """Return a refusal that ends with the best three of what the declared rows buy instead.

    Where a figure was out of its range, the model has the nearest within, and so is not `as_declared`.
    """
    best = nearest([offer_of(line) for line in lines_of(model, near=True)])
    fewer = declared_in_words(model)
    said = [_line(model, offer, as_declared=as_declared) for offer in best]
    if isinstance(model, EnsembleModel) and all(offer.refused for offer in best):  # it would be the refusal once more
        return refusal
    lines = "".join(f"\n  {line}" for line in (*said, *([fewer] if fewer else [])))
    return RefusedError(f"{refusal}\n{model.examples:,} rows buy (`perpetua suggest` shows more):{lines}")


def _notes(model: Model, offers: Sequence[Offer]) -> str:
    if not isinstance(model, EnsembleModel):
        return _NOTES
    some = any(figure is not None for one in offers for figure in (one.epsilon, one.alpha, one.examples))
    return _ABOUT_TEACHERS if some else _NO_TEACHERS


def _offers(lines: Sequence[Model]) -> list[Offer]:
    """Make the offers; those that are worked out without sizes of phases take no time, and are not counted."""
    slow = sum(searches(line) for line in lines)
    offers: list[Offer] = []
    with Progress("suggesting", slow, "lines") as progress:
        for number, line in enumerate(sorted(lines, key=lambda line: not searches(line)), 1):
            offers.append(offer_of(line))
            progress.at(min(number, slow))
    return offers


def _table(model: Model, offers: Sequence[Offer]) -> Table:
    table = figure_table(
        "predictor",
        "slicing",
        "sides",
        f"epsilon at alpha = {model.alpha:g}",
        f"alpha at epsilon = {model.epsilon:g}",
        "rows for both",
        "",
    )
    for offer in offers:
        table.add_row(
            _name(offer),
            offer.slicing or "-",
            str(len(offer.sides) or "-"),
            _figure(offer.epsilon, "epsilon"),
            _figure(offer.alpha, "alpha"),
            "-" if offer.examples is None else f"{offer.examples:,}",
            "enough" if offer.enough else "",
        )
    return table


def _name(offer: Offer) -> str:
    profile = f", {offer.profile}" if offer.profile == "paper" else ""
    teachers = f", {offer.teacher_rows} rows a teacher" if offer.teacher_rows else ""
    return f"{offer.predictor} {offer.concept}".strip() + teachers + profile


def _figure(figure: float | None, field: str) -> str:
    return f"none to {range_of(Model, field)[1]:g}" if figure is None else f"{figure:g}"


def _in_words(model: Model, offers: Sequence[Offer]) -> Iterator[str]:
    """Yield what is refused as declared, and how far from it the rows are, once for each predictor and slicing.

    Of ensembles the table says the second, and all that are refused are refused for the same.
    """
    if isinstance(model, EnsembleModel):
        yield from [f"{_name(offer)}: none; {offer.refused}" for offer in offers if offer.refused][:1]
        return
    asked = f"epsilon {model.epsilon:g} and alpha {model.alpha:g}"
    most: dict[str, tuple[Offer, int]] = {}
    for offer in offers:
        name = f"{_name(offer)} {offer.slicing}".strip()
        first, bought = most.get(name, (offer, 0))
        most[name] = first, max(bought, len(offer.sides) if offer.enough else 0)
    for name, (first, bought) in most.items():
        if first.refused:
            yield f"{name}: none; {first.refused}"
        elif not first.enough:
            least = "not even at" if first.epsilon is None else "not below"
            said = (
                f"{name}: {least} epsilon {first.epsilon or range_of(Model, 'epsilon')[1]:g} at alpha {model.alpha:g}"
            )
            many = f"{bought} of its {len(first.sides)} sides" if bought else "no side"
            yield f"{said}; at {asked} the rows buy {many}" if first.slicing else said


def _line(model: Model, offer: Offer, *, as_declared: bool) -> str:
    """Return an offer in a line: what would have to change, or what there is to gain."""
    sides = f"{len(offer.sides)} side{'s' if len(offer.sides) > 1 else ''}" if offer.sides else ""
    name = ", ".join(part for part in (_name(offer), offer.slicing, sides) if part)
    ways = [
        f"{field} {figure:g} at {other} {asked:g}"
        for field, figure, other, asked in (
            ("epsilon", offer.epsilon, "alpha", model.alpha),
            ("alpha", offer.alpha, "epsilon", model.epsilon),
        )
        if figure is not None
    ]
    if offer.enough:
        bought = "as declared" if as_declared else f"epsilon {model.epsilon:g} and alpha {model.alpha:g}"
        return f"{name}: {bought}; down to {' or '.join(ways)}"
    rows = [] if offer.examples is None else [f"{offer.examples:,} rows"]
    if not ways:
        rows = [
            f"nothing up to epsilon {range_of(Model, 'epsilon')[1]:g} or alpha {range_of(Model, 'alpha')[1]:g}; take",
            *rows,
        ]
        return f"{name}: {offer.refused or ' '.join(rows)}"
    return f"{name}: {', '.join(ways)}"
