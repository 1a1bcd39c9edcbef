"""Short forms of function names in C++, Fortran, Python extensions and Rust."""

from __future__ import annotations

import random

import pytest

from ompd.short_names import LONGEST, short_name

BOOSTING = "23_hist_gradient_boosting"
TEXT = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("main", "main"),
        ("report_progress_of_a_simulation", "report_progress_of_a_simulation"),
        ("add<int>", "add<int>"),
        (f"engine::detail::Evaluator<{TEXT}, std::vector<{TEXT}> >::run", "engine::detail::Evaluator<…>::run"),
        (f"one::two::three::four::Evaluator<{TEXT}>::evaluate_all", "…::Evaluator<…>::evaluate_all"),
        (f"work(std::vector<{TEXT}> const&)", "work(…)"),
        (f"std::operator<< <{TEXT}>(std::ostream&, {TEXT})", "std::operator<< <…>(…)"),
        (f"(anonymous namespace)::Worker<{TEXT}>::operator()(int)", "(anonymous namespace)::Worker<…>::operator()(…)"),
        (f"run(std::vector<{TEXT}>)::{{lambda({TEXT})#1}}::operator()(int)", "run(…)::{lambda(…)#1}::operator()(…)"),
        (f"__pyx_f_7sklearn_8ensemble_{BOOSTING}_8_binning__map_col_to_bins", "sklearn…_binning._map_col_to_bins"),
        ("__pyx_pw_5numpy_6random_1shuffle", "numpy.random.shuffle"),
        ("__pyx_f_", "__pyx_f_"),
        ("__solver_MOD_relax", "solver::relax"),
        ("core::ops::function::FnOnce::call_once::h0123456789abcdef", "core::ops::function::FnOnce::call_once"),
    ],
)  # fmt: skip
def test_long_names_are_shortened_and_others_kept(name: str, short: str) -> None:
    assert short_name(name) == short or (len(short) > LONGEST and len(short_name(name)) == LONGEST)


@pytest.mark.parametrize("seed", range(4))
def test_any_name_becomes_a_line_of_bounded_length(seed: int) -> None:
    chance = random.Random(seed)
    pieces = (
        "<",
        ">",
        "(",
        ")",
        "::",
        "operator",
        "operator<",
        "{lambda(",
        "a",
        "é",
        "\x1b",
        " ",
        "__pyx_f_",
        "9",
        "_MOD_",
    )
    for _ in range(2000):
        name = "".join(chance.choices(pieces, k=chance.choice((1, 5, 30, 200))))
        assert len(short_name(name)) <= LONGEST


@pytest.mark.parametrize("piece", ["<", "operator<", "::", "{lambda(", "9", "__pyx_f_7"])
def test_a_name_of_millions_of_characters_is_cut(piece: str) -> None:
    assert len(short_name(piece * 1_000_000)) == LONGEST
