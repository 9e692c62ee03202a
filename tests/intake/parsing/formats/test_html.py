from __future__ import annotations

import time

import pytest

from corpus_guard.domain import Severity
from corpus_guard.intake.parsing import ParsingSandbox
from corpus_guard.intake.parsing.formats import html
from corpus_guard.settings import Settings


def page(body: str, head: str = "") -> str:
    return f"<!doctype html><html><head>{head}</head><body><p>Shown.</p>{body}</body></html>"


@pytest.mark.parametrize(
    "body",
    [
        "<p hidden>evil</p>",
        '<p style="display:none">evil</p>',
        '<p style="DISPLAY : None !important">evil</p>',
        '<p style="d\\69splay:none">evil</p>',
        '<p style="dis/**/play:none;display:/* x */none">evil</p>',
        '<div style="display:none"><p style="display:block">evil</p></div>',
        '<p style="visibility:hidden">evil</p>',
        '<p style="font-size:0">evil</p>',
        '<p style="font-size:0.5px">evil</p>',
        '<p style="opacity:0.0">evil</p>',
        '<p style="color:#fff">evil</p>',
        '<p style="color:rgb(255, 255, 255)">evil</p>',
        '<p style="color:white;background:#FFFFFF">evil</p>',
        '<div style="background-color:#123456"><span style="color:#123456">evil</span></div>',
        '<p style="color:transparent">evil</p>',
        '<p style="color:rgba(0,0,0,0)">evil</p>',
        '<font color="#ffffff">evil</font>',
        '<p style="position:absolute;left:-9999px">evil</p>',
        '<p style="text-indent:-999em">evil</p>',
        '<p style="height:0;overflow:hidden">evil</p>',
        '<p style="position:absolute;clip:rect(0,0,0,0)">evil</p>',
        '<p style="transform:scale(0)">evil</p>',
        "<!-- evil -->",
        "<!--[if IE]>evil<![endif]-->",
        "<template>evil</template>",
        "<noscript>evil</noscript>",
        '<div hidden><img alt="evil"></div>',
        '<style>.x{color:red} .x, .y { display : none }</style><p class="y">evil</p>',
        '<style>@media print{p{display:block}} @media screen { .y{display:none} }</style><p class="y">evil</p>',
        '<style>.y{font-size:0}</style><p class="y">evil</p>',
        f'<p style="{"margin:0;" * 1_000}display:none">evil</p>',
        '<p style="display:none!important;display:block">evil</p>',
        '<p style="opacity:0%">evil</p>',
        '<p style="--o:0;opacity:var(--o)">evil</p>',
        '<p style="opacity:var(--p,var(--q,0))">evil</p>',
        '<p style="font-size:calc(0px)">evil</p>',
        '<p style="font:0/1 serif">evil</p>',
        '<p style="font:italic 0.5px serif">evil</p>',
        '<p style="-webkit-text-fill-color:transparent">evil</p>',
        '<p style="filter:opacity(0)">evil</p>',
        '<p style="transform:scaleX(0)">evil</p>',
        '<p style="transform:rotate(1deg) scale(0.001)">evil</p>',
        '<p style="scale:0">evil</p>',
        '<p style="transform:rotateX(90deg)">evil</p>',
        '<p style="transform:translateX(-9999px)">evil</p>',
        '<p style="position:absolute;left:99999px">evil</p>',
        '<p style="position:absolute;inset:-9999px auto auto">evil</p>',
        '<p style="text-indent:100%;white-space:nowrap;overflow:hidden">evil</p>',
        '<p style="max-height:0;overflow-y:clip">evil</p>',
        '<p style="clip-path:polygon(0 0,0 0,0 0)">evil</p>',
        '<p style="clip-path:inset(0 100% 0 0)">evil</p>',
        "<style>p.y{display:none} p{display:block}</style><p class=y>evil</p>",
        "<style>.y{display:none!important} p.y{display:block}</style><p class=y>evil</p>",
        '<style>.y{display:none!important}</style><p class=y style="display:block">evil</p>',
        "<style>.y{overflow:hidden} .z{height:0}</style><p class='y z'>evil</p>",
        "<style>:root{--d:none} .y{display:var(--d)}</style><p class=y>evil</p>",
        "<style>@media only screen and (min-width: 1px){.y{display:none}}</style><p class=y>evil</p>",
        "<style>@media print, screen{.y{display:none}}</style><p class=y>evil</p>",
        "<style>@supports (display:grid){@layer a{.y{display:none}}}</style><p class=y>evil</p>",
        "<style>body{color:red; & p, .z{&.y{display:none}}}</style><p class=y>evil</p>",
        "<style>body{@media screen{.y{display:none}}}</style><p class=y>evil</p>",
        "<style>p:lang(en).y{display:none}</style><p class=y lang=en>evil</p>",
        f"<style>{'.a{display:none}' * 4_000}.y{{display:none}}</style><p class=y>evil</p>",
        f"<style>@font-face{{src:url(data:font/woff2;base64,{'A' * 1_100_000})}}.y{{display:none}}</style><p class=y>evil</p>",
        "<dialog>evil</dialog>",
        "<div popover>evil</div>",
        "<progress>evil</progress>",
        "<svg><defs><text>evil</text></defs></svg>",
        "<div style='--o:0'><p style='opacity:var(--o)'>evil</p></div>",
        "<style>:root{--o:1}.q{--o:none}.z{display:var(--o)}</style><div class=q><p class=z>evil</p></div>",
        "<style>@layer a,b;@layer b{.y{display:none}}@layer a{p.y{display:block}}</style><p class=y>evil</p>",
        "<style>@layer a{p#y{display:block}}.z{display:none}</style><p id=y class=z>evil</p>",
        "<style>@layer a{.y{display:none!important}}.y{display:block!important}</style><p class=y>evil</p>",
        "<style>@layer a.b{.y{display:block}}@layer a{.y{display:none}}</style><p class=y>evil</p>",
        "<style>@layer a{@layer b{p.y{display:block}}.y{display:none}}</style><p class=y>evil</p>",
        "<style>.y:not(:focus-within){opacity:0}</style><p class=y>evil</p>",
        "<style>.y:not(:fullscreen){display:none}</style><p class=y>evil</p>",
        "<style>details:not(:open)+p{display:none}</style><details></details><p>evil</p>",
        "<style>@supports not (display:bogus){.y{display:none}}</style><p class=y>evil</p>",
        "<div hidden=until-found style=display:block>evil</div>",
        "<dialog class=y>evil</dialog>",
        "<math><maction actiontype=toggle><mtext></mtext><mtext>evil</mtext></maction></math>",
        "<ruby><rp>evil</rp></ruby>",
    ],
)
def test_what_a_browser_does_not_show_is_hidden(body: str) -> None:
    parsed = html.read_string(page(body))
    assert parsed.text == "Shown."
    assert parsed.hidden == "evil"


@pytest.mark.parametrize(
    "body",
    [
        "<p>good</p>",
        '<span aria-hidden="true">good</span>',
        '<p style="color:white;background:black">good</p>',
        '<div style="background:#000"><p style="color:#fff">good</p></div>',
        '<div style="visibility:hidden"><p style="visibility:visible">good</p></div>',
        '<div style="font-size:0"><p style="font-size:16px">good</p></div>',
        '<p style="opacity:0.5;margin-left:-10px;text-indent:-2em">good</p>',
        "<style>@media print { .y{display:none} } .y{color:#333}</style><p class=y>good</p>",
        "<style>.y{display:none} .y{display:block}</style><p class=y>good</p>",
        '<style>.y{display:none}</style><p class=y style="display:block">good</p>',
        '<style>a:hover{display:none}</style><p><a href="x">good</a></p>',
        "<ul><li>good</li></ul>",
        "<details><summary>more</summary>good</details>",
        '<p style="opacity:50%;filter:opacity(0.9);scale:0.5;transform:scale(1.05) translate(-50%,-1200px)">good</p>',
        '<p style="position:absolute;left:50%;top:12000px;margin:-300px 0 0 -600px;inset:0">good</p>',
        '<p style="font:16px/0 serif;clip-path:inset(0 10%);overflow:hidden;text-indent:2em">good</p>',
        '<p style="color:red;-webkit-background-clip:text;-webkit-text-fill-color:transparent">good</p>',
        '<p style="display:block!important;display:none">good</p>',
        "<style>p{display:block} .y{display:none} p.y{display:block}</style><p class=y>good</p>",
        "<style>@media (max-width: 600px){.y{display:none}}</style><p class=y>good</p>",
        "<style>@media print and (min-width:1px){.y{display:none}}</style><p class=y>good</p>",
        "<style>@supports not (display:grid){.y{display:none}}</style><p class=y>good</p>",
        "<style>.js{.y{display:none}}</style><p class=y>good</p>",
        "<dialog open>good</dialog>",
        "<p><ruby>good<rp>(</rp></ruby></p>",
        "<style>:root{--o:0}.q{--o:1}.z{opacity:var(--o)}</style><div class=q><p class=z>good</p></div>",
        "<style>:root{--b:#fff}.q{--b:#000;--c:#fff}.z{background:var(--b);color:var(--c)}</style><div class=q><p class=z>good</div>",
        "<style>@layer a{p#y{display:none}}.z{display:block}</style><p id=y class=z>good</p>",
        "<style>@layer a,b;@layer b{p{display:block}}@layer a{p.y{display:none}}</style><p class=y>good</p>",
        "<style>@supports (display:bogus){.y{display:none}}</style><p class=y>good</p>",
        "<style>.y{display:flex}</style><div hidden class=y>good</div>",
        "<style>dialog{display:block}</style><dialog>good</dialog>",
        "<style type=text/template>.y{display:none}</style><p class=y>good</p>",
        "<link rel=stylesheet media=print href='data:text/css,.y{display:none}'><p class=y>good</p>",
        "<math><maction actiontype=toggle><mtext>good</mtext></maction></math>",
        "<svg><text y=20 fill=none stroke=black>good</text></svg>",
    ],
)
def test_what_a_browser_shows_is_text(body: str) -> None:
    parsed = html.read_string(page(body))
    assert "good" in parsed.text
    assert parsed.hidden == ""


HIDING_STYLES = (
    "position:absolute;left:calc(-1 * 9999px)",
    "position:absolute;left:calc(50% - 9999px)",
    "position:absolute;left:calc((1px + 1px) * -5000)",
    "position:absolute;left:min(-9999px, 0px)",
    "--x:9999px;position:absolute;left:calc(-1 * var(--x))",
    "text-indent:calc(-9999px + 1px)",
    "margin-left:calc(-1 * (9000px + 999px))",
    "font-size:min(0px, 12px)",
    "font-size:clamp(0px, 0px, 1px)",
    "font-size:calc(16px / 100)",
    "font-size:0.01vw",
    "font-size-adjust:0",
    "opacity:calc(0.5 - 0.5)",
    "overflow:hidden;height:calc(10px - 10px)",
    "overflow:hidden;height:0em",
    "overflow:hidden;max-height:0vh",
    "transform:scale(calc(1 - 1))",
    "transform:translateX(-100vw)",
    "translate:-110vw 0",
    "transform:matrix(1,0,0,1,-9999,0)",
    "rotate:y 90deg",
    "position:absolute;right:100vw",
    "position:fixed;inset:100% auto auto 0",
    "color:color-mix(in srgb, white 100%, black)",
    "color:color-mix(in oklch, #fff 99%, #eee)",
    "color:color-mix(in srgb, black 0%, transparent)",
    "color:rgb(from white r g b)",
    "color:rgb(from black r g b / 0)",
    "mask-image:linear-gradient(transparent, transparent)",
    "-webkit-mask:linear-gradient(#0000 0 0)",
    "mask:linear-gradient(#000 0 0) no-repeat;mask-size:0 0",
    "clip-path:circle(10px at -100px -100px)",
    "clip-path:polygon(0 0, 100% 0, 100% 0)",
    "clip-path:polygon(-10px 0, -5px 0, -5px 10px)",
    "clip-path:path('M0 0')",
    "display:none;display:foo",
    "display:none;display:block flex grid",
    "display:none!important;display:foo!important",
    "visibility:hidden;visibility:seen",
    "opacity:0;opacity:1px",
    "opacity:0;opacity:calc(1 1)",
    "font-size:0;font-size:-1px",
    "font-size:0;font-size:16",
    "overflow:hidden;height:0;height:-5px",
    "position:absolute;position:foo;left:-9999px;left:0 0",
    "clip-path:inset(100%);clip-path:inset(none)",
    "transform:scale(0);transform:scale(1,1,1)",
    "transform:scale(0);transform:rotate(5px)",
    "filter:opacity(0);filter:opacity(-1)",
    "color:white;color:blurple",
    "color:white;color:rgb(1)",
    "color:#000;background:#000;background:blurple",
    "color:#000;background:#000;background:-ms-linear-gradient(#fff,#fff)",
    "max-block-size:0;overflow:hidden",
    "inline-size:0;overflow-inline:hidden",
    "position:absolute;inset-inline-start:-9999px",
    "position:absolute;inset-block:-9999px 0",
    "margin-inline:-9999px",
    "color:oklch(1 0 0)",
    "color:lab(100 0 0)",
    "color:oklab(100% 0 0)",
    "color:lch(98% 0 0)",
    "color:color(xyz-d65 0.95 1 1.09)",
    "transform:matrix3d(0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,1)",
    "transform:matrix(1,1,1,1,0,0)",
    "transform:matrix3d(1,0,0,0,0,1,0,0,0,0,1,0,-9999,0,0,1)",
    "transform:rotate3d(0,1,0,90deg)",
    "transform:rotateX(0.25turn)",
    "rotate:0 1 0 100grad",
    "transform:skewX(90deg)",
    "transform:skew(0deg, -90deg)",
    "opacity:sin(0)",
    "opacity:calc(1 - abs(-1))",
    "opacity:round(down, .9, 1)",
    "opacity:pow(0, 2)",
    "opacity:1e-9",
    "opacity:env(nope, 0)",
    "display:env(nope, none)",
    "font-size:calc(sqrt(0) * 1px)",
    "font:1e-2px serif",
    "position:absolute;left:-1e5px",
    "color:env(nope, #fff)",
    "color:color(display-p3 1 1 1)",
    "overflow:visible clip;height:0",
    "contain:paint;height:0",
    "zoom:1%",
    "scale:1%",
    "clip-path:inset(30% 0 70% 0)",
    "clip-path:inset(49.9%)",
    "clip-path:inset(0 5000px 0 0)",
    "clip-path:rect(10px 5px 10px 5px)",
    "clip-path:path('M0 0h1v1z')",
    "clip-path:shape(from 0 0, line to 0 0)",
    "position:absolute;clip:rect(9999px,9999px,9999px,9999px)",
    "position:absolute;clip:rect(auto,0,auto,auto)",
    "position:fixed;left:0;transform:translateX(-101%)",
    "position:fixed;top:0;transform:translate3d(0,-100%,0)",
    "position:fixed;bottom:0;translate:0 120%",
    "--on:;display:var(--on) none",
    "color:transparent;-webkit-text-stroke:1px white",
)
SHOWING_STYLES = (
    "width:calc(100% - 20px)",
    "overflow:hidden;max-height:calc(100vh - 900px)",
    "overflow:auto;height:calc(100% - 600px)",
    "font-size:calc(1rem + 1vw)",
    "font-size:clamp(1rem, 2vw, 1.5rem);width:min(100%, 60rem)",
    "position:absolute;left:calc(50% - 960px)",
    "margin:0 calc(-1 * (100vw - 100%) / 2)",
    "margin-left:calc(-1 * var(--gutter, 1rem))",
    "margin-left:calc(1px / 0)",
    "left:calc(((((((((((((((((((((((((((((((((((1px)))))))))))))))))))))))))))))))))))",
    "clip-path:polygon(0 0,100% 0,100% 85%,0 100%)",
    "clip-path:polygon(0 0,100% 100%,100% 0,0 100%)",
    "clip-path:circle(50%)",
    "clip-path:circle(50% at 0px 0px)",
    "mask-image:linear-gradient(to bottom, black 80%, transparent)",
    "-webkit-mask-image:linear-gradient(90deg, transparent, #000 10%)",
    "color:color-mix(in srgb, currentColor 80%, white)",
    "color:color-mix(in srgb, black 60%, white)",
    "color:color-mix()",
    "color:rgb(from)",
    "color:hsl(from white h s calc(l - 90))",
    "background:color-mix(in oklab, #fff 90%, blue)",
    "display:none;display:block",
    "display:none;display:inline flow-root list-item",
    "display:none;display:var(--unknown)",
    "opacity:0;opacity:calc(1 - var(--x))",
    "font-size:0;font-size:calc(1rem + 1cqi)",
    "overflow:hidden;height:0;height:min-content",
    "overflow:hidden;height:0;height:calc(100svh - (2rem + 1px) * 2)",
    "transform:scale(0);transform:translate(0, 5%) rotate(5deg)",
    "clip-path:inset(100%);clip-path:inset(0 10% round 5px)",
    "color:white;color:LinkText",
    "color:oklch(0.4 0.1 250)",
    "color:#fff;background:#fff;background:url(x.png) no-repeat center / cover, linear-gradient(90deg, #123, rgb(0 0 0 / 50%))",
    "position:relative;inset-inline-start:-20px;margin-block:1em;max-block-size:20em;overflow:hidden",
    "transform:rotate3d(0,0,1,90deg)",
    "transform:rotate(90deg) skewX(-20deg)",
    "transform:matrix(0,1,-1,0,0,0)",
    "rotate:90deg",
    "opacity:calc(sin(90deg))",
    "font-size:1.6e1px",
    "clip-path:inset(10px 0 10px 0 round 5px)",
    "clip-path:inset(40% 0 0 0)",
    "position:absolute;clip:rect(0px,600px,200px,0px)",
    "clip-path:rect(0 100% 100% 0)",
    "contain:content",
    "overflow:visible clip;height:200px",
    "zoom:120%",
    "transform:scaleX(-1)",
    "position:fixed;left:50%;top:50%;transform:translate(-50%,-50%)",
    "position:fixed;top:0;left:0;transform:translateX(10%)",
    "color:transparent;-webkit-text-stroke:1px #222",
    "padding-left:env(safe-area-inset-left, 20px)",
    "color:color(display-p3 0 0 0.5)",
)


@pytest.mark.parametrize("style", HIDING_STYLES)
def test_a_style_that_is_worked_out_hides(style: str) -> None:
    parsed = html.read_string(page(f'<p>good</p><p style="{style}">evil</p>'))
    assert ("evil" in parsed.text, "evil" in parsed.hidden) == (False, True)


@pytest.mark.parametrize("style", SHOWING_STYLES)
def test_a_style_that_is_worked_out_hides_nothing_that_shows(style: str) -> None:
    assert "evil" in html.read_string(page(f'<p>good</p><p style="{style}">evil</p>')).text


@pytest.mark.parametrize(
    "columns",
    [
        "<col><col style=visibility:collapse>",
        "<style>.x{visibility:collapse}</style><colgroup><col><col class=x></colgroup>",
        "<colgroup><colgroup span=2 style=visibility:collapse>",
    ],
)
def test_columns_that_a_style_takes_away_are_hidden(columns: str) -> None:
    parsed = html.read_string(page(f"<table>{columns}<tr><td>good<td>evil<tr><td colspan=2>good<td>better</table>"))
    assert "evil" in parsed.hidden and "evil" not in parsed.text
    assert parsed.text.count("good") == 2


def test_a_page_may_name_the_colour_of_its_text() -> None:
    parsed = html.read_string("<html><body text=#ffffff>evil<p style=color:#000>Shown.</p></body></html>")
    assert (parsed.text, parsed.hidden) == ("Shown.", "evil")


def test_variables_of_elements_within_each_other_take_no_time() -> None:
    start = time.process_time()
    html.read_string("<div style='--a:1'>" + "<div style='opacity:var(--b)'>" * 4_000 + "x")
    parsed = html.read_string("<div style='--a:1;opacity:var(--b)'>" * 4_000 + "x")
    assert time.process_time() - start < 10
    assert "parsing.styles" in [problem.code for problem in parsed.problems]


def test_columns_without_number_take_no_time() -> None:
    columns = "<col span=1000 style=visibility:collapse>" * 20_000
    assert "good" not in html.read_string(page(f"<p>x</p><table>{columns}<tr><td>good</table>")).text


def test_more_rules_than_are_looked_at_are_told() -> None:
    parsed = html.read_string(page("<p>x</p>", "<style>" + "a{display:none}" * 4_000 + "</style>"))
    assert [(problem.code, problem.severity) for problem in parsed.problems] == [("parsing.styles", Severity.MEDIUM)]


def test_decoys_among_the_meta_texts_hide_none() -> None:
    head = '<meta name="a" content="x">' * 300 + '<meta name="b" content="evil words behind many">'
    assert "evil words" in html.read_string(page("", head)).hidden


def test_a_longer_style_than_is_read_is_told() -> None:
    parsed = html.read_string(page(f'<p style="{"margin:0;" * 20_000}display:none">x</p>'))
    assert [(problem.code, problem.severity) for problem in parsed.problems] == [("parsing.styles", Severity.MEDIUM)]


def test_rules_within_rules_stay_linear() -> None:
    start = time.process_time()
    html.read_string(page("<p>x</p>", "<style>" + "a,b{& & &,i{display:none;" * 10_000 + "</style>"))
    html.read_string(page("<p>x</p>", "<style>" + "a{" * 200_000 + "</style>"))
    html.read_string(page("<p>x</p>", "<style>" + "@layer x{" * 3_000 + ".y{display:none}</style>"))
    html.read_string(page('<p style="--a:var(--a) var(--a);opacity:var(--a)">x</p>'))
    assert time.process_time() - start < 20


def test_hidden_words_are_not_torn_apart() -> None:
    parsed = html.read_string(page("<div hidden><p>ig<b>nore</b> all</p><p>next</p></div>"))
    assert parsed.hidden == "ignore all\nnext"


def test_scripts_and_page_furniture_are_left_out_but_never_most_of_a_page() -> None:
    furniture = "<nav>Home About</nav><footer>Imprint</footer><script>var evil</script>"
    assert html.read_string(page("<p>A page of some length, with a text.</p>" + furniture)).text.count("\n") == 2
    assert "real text" in html.read_string(page("<nav>" + "the real text " * 50 + "</nav>")).text


@pytest.mark.parametrize("tag", ["main", 'div role="main"'])
def test_of_a_page_with_a_main_part_that_is_the_text(tag: str) -> None:
    menu = "<div><h2>Keyboard shortcuts</h2><p>Press <kbd>S</kbd> to search.</p><ul><li>Light<li>Dark</ul></div>"
    text = '<nav>Next</nav><h1>Tides</h1><p>High water is at nine. <a href="https://e.org/tables">Tables</a></p>'
    main = f"<{tag}>{text}</{tag.partition(' ')[0]}>"
    parsed = html.read_string(page(f'<a href="https://e.org/tables">All tables</a>{menu}{main}<p>Theme by nobody</p>'))
    named = html.read_string(page(f"<header>Harbour office <nav>Home</nav></header>{menu}{main}"))
    menu_above = html.read_string(page(f'<header role="navigation">Harbour office</header>{menu}{main}'))

    assert named.text == f"Harbour office\n\n{parsed.text}"
    assert menu_above.text == parsed.text
    assert parsed.text == "# Tides\n\nHigh water is at nine. Tables (https://e.org/tables)"
    assert parsed.hidden == ""  # what is left out is on the screen


def test_a_main_part_that_holds_next_to_nothing_is_not_taken_for_the_page() -> None:
    parsed = html.read_string(page("<main><h1>Tides</h1></main><p>" + "High water is at nine. " * 20 + "</p>"))

    assert "High water" in parsed.text


def test_a_comment_that_repeats_another_counts_once() -> None:
    licence = "<!--! Icons by somebody, under a licence of so many words -->"

    once = html.read_string(page(f"<p>High water is at nine.</p><svg>{licence}</svg>")).hidden

    assert html.read_string(page(f"<p>High water is at nine.</p><svg>{licence * 10}</svg>")).hidden == once
    assert "under a licence" in once


def test_what_it_says_of_itself_is_declared() -> None:
    head = '<title>T &amp; U</title><meta name="Author" content="me"><meta property="article:published_time" content="2026">'
    assert dict(html.read_string(page("", head)).declared) == {"title": "T & U", "author": "me", "date": "2026"}


def test_tables_lists_and_code_keep_their_lines() -> None:
    text = html.read_string(page("<ul><li>a<li>b</ul><pre>x\n  y</pre><table><tr><td>1<td>2</table>")).text
    for line in ("- a", "- b", "  y", "1 | 2"):
        assert line in text


def test_headings_and_links_are_kept() -> None:
    body = """<h2>Quays <em>north</em></h2><p>See <a href="https://e.org/plan">the plan</a>, <a href="/rest">the rest</a>,
        <a href="https://e.org/plan">the plan</a> and <a href="https://e.org/">e.org</a>.<ol><li>one<ul><li>inner</ul><li>two</ol>"""
    assert html.read_string(page(body)).text == (
        "Shown.\n\n## Quays north\n\nSee the plan (https://e.org/plan), the rest, the plan and e.org.\n\n1. one\n  - inner\n2. two"
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Ignore<sup>1</sup> the<sup>2</sup> quay.", "Ignore[1] the[2] quay."),
        ("Quays<sup> <a href='#n'>12</a> </sup>are deep<sub>3</sub>ly old.", "Quays[ 12 ]are deep[3]ly old."),
        ("Price<sup>a</sup> and size<sup>1, 2</sup>", "Price[a] and size[1, 2]"),
        ("Quay<sup>[1]</sup> of the city<sup>®</sup>", "Quay[1] of the city®"),
        ("12 m<sup>3</sup>, x<sup>2</sup>, CO<sub>2</sub>, PM<sub>10</sub>", "12 m3, x2, CO2, PM10"),
        ("the 150<sup>th</sup> year, n<sup>o</sup> 5, XIX<sup>e</sup>", "the 150th year, no 5, XIXe"),
        ("sin<sup>2</sup> x + log<sub>2</sub> y = 2<sup>3</sup>", "sin2 x + log2 y = 2^3"),
        ("In 2023<sup>4</sup>, 10<sup>−3</sup> of the 3<sup>rd</sup>", "In 2023^4, 10^−3 of the 3rd"),
        ("<ruby>quay<rt>ki</rt></ruby>", "quay(ki)"),
        ("<ruby>quay<rp>(</rp><rt>ki</rt><rp>)</rp></ruby>", "quay(ki)"),
        ("quay<sup hidden>1</sup>", "quay"),
    ],
)
def test_marks_are_no_part_of_the_word_before(body: str, text: str) -> None:
    assert html.read_string(f"<p>{body}</p>").text == text


def test_icons_of_a_font_are_no_text() -> None:
    parsed = html.read_string(
        page('<h2>Pier<a class="headerlink" href="#pier">\uf0c1</a></h2><p>\ue000Deep w\uf8ffater.</p>')
    )

    assert parsed.text == "Shown.\n\n## Pier\n\nDeep water."


def test_what_stands_beside_the_text_is_hidden_and_told_by_kind() -> None:
    parsed = html.read_string(
        page('<img alt="a boat"><p hidden>closed</p><!-- draft -->', "<title>The quays of the harbour</title>")
    )
    assert parsed.hidden == "closed\ndraft\na boat\nThe quays of the harbour"
    (problem,) = parsed.problems
    assert problem.code == "parsing.hidden_text"
    assert "not displayed 6; comments 5; alternative texts and tooltips 6; properties 24" in problem.message


@pytest.mark.parametrize(
    "html_text",
    [
        "<style id=antiClickjack>body{display:none}</style><body><p>The quay is closed.</p>",
        "<body><script>var a = 'longer than the text';</script><div style='opacity:0'><main hidden>The quay is closed.</main></div>",
    ],
)
def test_a_page_that_only_a_script_shows_is_read(html_text: str) -> None:
    parsed = html.read_string(html_text + "<p style='display:none'>evil</p>")
    assert parsed.text == "The quay is closed."
    assert parsed.hidden == "evil"
    assert [problem.code for problem in parsed.problems] == ["parsing.shown_by_script", "parsing.hidden_text"]


def test_a_page_that_shows_something_shows_nothing_by_script() -> None:
    parsed = html.read_string("<body><p>Wait.</p><div style='display:none'>" + "<p>evil</p>" * 9 + "</div>")
    assert parsed.text == "Wait." and "evil" in parsed.hidden


@pytest.mark.parametrize(
    "address", ["javascript:fetch('//t.example')", " JavaScript:void(0)", "data:text/html,evil", "vbscript:x"]
)
def test_nothing_is_written_of_a_link_that_runs_a_script(address: str) -> None:
    assert html.read_string(f'<p>Read <a href="{address}">more</a>.</p>').text == "Read more."


def test_two_parsers_that_disagree_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html._recount, "count_html_chars", lambda text: 10)
    codes = [problem.code for problem in html.read_string(page("<p>" + "quays and boats " * 40)).problems]
    assert codes == ["parsing.extractors_disagree"]


def test_a_page_that_browsers_repair_is_read_alike_by_both_parsers() -> None:
    parsed = html.read_string(page("<p>Quays.</p><iframe src=map />" + "<p>quays and boats</p>" * 40))
    assert [problem.code for problem in parsed.problems] == ["parsing.hidden_text"]


def test_declared_encodings_are_read(sandbox: ParsingSandbox) -> None:
    source = '<html><head><meta charset="{}"></head><body>Грустный текст</body></html>'
    assert sandbox.parse(source.format("windows-1251").encode("cp1251"), "", "a.html").text == "Грустный текст"
    broken = sandbox.parse(source.format("shift_jis").encode("cp1251"), "", "a.html")
    assert "parsing.encoding" in [problem.code for problem in broken.problems]


def test_depth_loses_nothing() -> None:
    # lxml drops what lies below a depth of 255.
    assert html.read_string("<html><body>" + "<div>" * 5_000 + "deep text").text == "deep text"


def test_very_deep_html_is_read_or_refused_but_never_lost() -> None:
    with ParsingSandbox(Settings(parse_seconds=2)) as sandbox:
        parsed = sandbox.parse(b"<html><body>" + b"<div>" * 100_000 + b"deep text", "", "a.html")
    assert parsed.text == "deep text" or any(problem.severity is Severity.CRITICAL for problem in parsed.problems)


@pytest.mark.parametrize(
    "source",
    [
        "<" * 500_000,
        "<template>" + "<" * 300_000 + "</template>",
        "<style>" + "a{display:none}" * 20_000 + "</style>" + "<a>x</a>" * 200,
        "<style>a{display:none}</style>" + "<a>x</a>" * 50_000,
        "<style>" + "{" * 200_000 + "</style>x",
        "<style>" + "@x{" * 100_000 + "</style>x",
        "<style>" + "/*" * 200_000 + "</style>x",
        '<p style="' + "(" * 300_000 + '">x</p>',
        "<!--" * 200_000,
        "<meta content=x>" * 30_000,
    ],
)
def test_hostile_html_is_read_in_seconds(source: str) -> None:
    started = time.process_time()
    html.read_string(source)
    assert time.process_time() - started < 10


HIDDEN = {
    "letters of a picture, not displayed": "<svg><text display=none>evil</text></svg>",
    "letters of a picture, invisible": "<svg><text visibility=hidden>evil</text></svg>",
    "letters of a picture without a fill": "<svg><text fill=none>evil</text></svg>",
    "letters of a picture in white": "<svg><g fill=white><text>evil</text></g></svg>",
    "letters of a picture by a style": "<svg><text style='fill:#fff'>evil</text></svg>",
    "letters of a picture, transparent": "<svg><text fill-opacity=0>evil</text></svg>",
    "letters of a picture without size": "<svg><text font-size=0>evil</text></svg>",
    "letters off a picture": "<svg><text x=-9000 y=5>evil</text></svg>",
    "picture without size": "<svg width=0 height=0><text>evil</text></svg>",
    "source of a formula": "<math><semantics><mi>x</mi><annotation encoding='text/plain'>evil</annotation></semantics></math>",
    "phantom of a formula": "<math><mphantom><mtext>evil</mtext></mphantom></math>",
    "colour in a variable": "<style>:root{--b:#fff}</style><p style='color:var(--b)'>evil</p>",
    "ground in the text's colour": "<p style='background:currentColor'>evil</p>",
    "gradient of one colour": "<p style='color:#000;background:linear-gradient(#000,#010101)'>evil</p>",
    "nearly the ground's colour": "<p style='color:#eee'>evil</p>",
    "nearly transparent": "<p style='opacity:.06'>evil</p>",
    "colour of the system": "<p style='color:Canvas'>evil</p>",
    "colour of a light screen": "<p style='color:light-dark(white,black)'>evil</p>",
    "box that scrolls": "<div style='height:0;overflow:auto'>evil</div>",
    "lines without height": "<p style='line-height:0;overflow:hidden'>evil</p>",
    "clipped to nothing": "<p style='clip-path:xywh(0 0 0 0)'>evil</p>",
    "zoomed out": "<p style='zoom:0.01'>evil</p>",
    "letters on each other": "<p style='letter-spacing:-50px'>evil</p>",
    "a screen away": "<p style='position:fixed;left:100vw'>evil</p>",
    "replaced by a picture": "<p style='content:url(x.png)'>evil</p>",
    "below a shadow tree": "<div><template shadowrootmode=open><p>seen</p></template>evil</div>",
    "style sheet of screens": "<style media=screen>.q{display:none}</style><p class=q>evil</p>",
    "rule for any height": "<style>@media (min-height:1px){.q{display:none}}</style><p class=q>evil</p>",
    "style sheet in an address": "<link rel=stylesheet href='data:text/css,.q{display:none}'><p class=q>evil</p>",
    "rule for screens that are not paper": "<style>@media not print{.q{display:none}}</style><p class=q>evil</p>",
    "rule for light screens": "<style>@media (prefers-color-scheme:light){.q{display:none}}</style><p class=q>evil</p>",
    "rule for moving pages": "<style>@media not (prefers-reduced-motion){.q{display:none}}</style><p class=q>evil</p>",
    "rule for pages with scripts": "<style>@media (scripting:enabled){.q{display:none}}</style><p class=q>evil</p>",
    "rule for a resolution": "<style>@media screen and (resolution>=.1dppx){.q{display:none}}</style><p class=q>evil</p>",
    "rule for either": "<style>@media (width<9px) or (1px<=width<=99999px){.q{display:none}}</style><p class=q>evil</p>",
    "rule of a long query": f"<style>@media {'not ' * 400}(x){{.q{{display:none}}}}</style><p class=q>evil</p>",
    "first value of a variable": "<style>@property --d{inherits:false;initial-value:none}.q{display:var(--d)}</style><p class=q>evil</p>",
    "first line": "<style>.q::first-line{font-size:0}</style><p class=q>evil</p>",
    "end of an animation": "<style>@keyframes x{to{opacity:0}}.q{animation:x 1ms forwards}</style><p class=q>evil</p>",
    "animation without end": "<style>@keyframes x{from,to{visibility:hidden}}.q{animation:x 1s infinite}</style><p class=q>evil</p>",
    "animation that waits": "<style>@keyframes x{0%{opacity:0}}.q{animation:x 1s 9999s both}</style><p class=q>evil</p>",
    "animation that stands still": "<style>@-webkit-keyframes x{from{color:#fff}}.q{animation:x 1s paused}</style><p class=q>evil</p>",
    "other slot": "<div><template shadowrootmode=open><slot name=z></slot></template>evil</div>",
    "hidden slot": "<div><template shadowrootmode=open><div hidden><slot></slot></div></template><p>evil</p></div>",
    "slotted": "<div><template shadowrootmode=open><style>::slotted(p){display:none}</style><slot></slot></template><p>evil</p></div>",
    "host": "<div><template shadowrootmode=open><style>:host{display:none}</style><slot></slot></template><p>evil</p></div>",
    "box in a host": "<div><template shadowrootmode=open><style>:host p{opacity:0}</style><p><slot></slot></p></template>evil</div>",
    "white slot": "<div><template shadowrootmode=open><p style='color:#fff'><slot></slot></p></template>evil</div>",
    "letters below a picture": "<svg width=10 height=10><text y=9999>evil</text></svg>",
    "letters below a view": "<svg viewBox='0 0 10 10'><text y=9 dy=999>evil</text></svg>",
    "letters moved off a picture": "<svg><text transform='translate(-9999 0)'>evil</text></svg>",
    "group moved off a picture": "<svg><g transform='translate(0,-9999)'><text y=5>evil</text></g></svg>",
    "letters pressed": "<svg><text transform='scale(0)'>evil</text></svg>",
    "letters pressed by a matrix": "<svg><g transform='matrix(0 0 0 0 5 5)'><text>evil</text></g></svg>",
    "letters of another language": "<svg><switch><text systemLanguage='xx'>evil</text><text>a</text></switch></svg>",
    "letters that are not chosen": "<svg><switch><text>a</text><text>evil</text></switch></svg>",
    "letters on no path": "<svg><text><textPath href='#nope'>evil</textPath></text></svg>",
    "letters on an empty path": "<svg><path id=p d='' /><text><textPath xlink:href='#p'>evil</textPath></text></svg>",
    "letters without length": "<svg><text textLength=0 lengthAdjust=spacingAndGlyphs>evil</text></svg>",
    "flat page in a picture": "<svg><foreignObject width=0 height=0>evil</foreignObject></svg>",
    "imported style sheet": "<style>@import url('data:text/css;base64,LnF7ZGlzcGxheTpub25lfQ==');</style><p class=q>evil</p>",
}
SHOWN = {
    "letters of a picture": "<svg><text>seen</text></svg>",
    "white letters on a shape": "<svg><rect fill='#123'/><text fill=white>seen</text></svg>",
    "letters in the page's colour": "<svg><text fill=currentColor>seen</text></svg>",
    "formula": "<math><semantics><mi>seen</mi><annotation>x</annotation></semantics></math>",
    "white on a dark gradient": "<p style='color:#fff;background:linear-gradient(#123,#345)'>seen</p>",
    "white on a dark gradient over a picture": "<p style='color:#fff;background-image:linear-gradient(#123,#345),url(x)'>seen</p>",
    "grey": "<p style='color:#999'>seen</p>",
    "colours of like light": "<p style='color:#c00;background:#060'>seen</p>",
    "slot of a shadow tree": "<div><template shadowrootmode=open><slot></slot></template>seen</div>",
    "rule that takes back": "<style>.q{display:none;display:foo} p.q{display:block}</style><p class=q>seen</p>",
    "rule for paper": "<style>@media not screen{.q{display:none}}</style><p class=q>seen</p>",
    "rule for dark screens": "<style>@media (prefers-color-scheme:dark){.q{color:#fff}}</style><p class=q>seen</p>",
    "rule for a feature that is not known": "<style>@media not (foo){.q{display:none}}</style><p class=q>seen</p>",
    "rule for small screens": "<style>@media not (min-width:600px){.q{display:none}}</style><p class=q>seen</p>",
    "bold first line": "<style>.q::first-line{font-weight:bold}</style><p class=q>seen</p>",
    "animation that fades in": "<style>@keyframes x{from{opacity:0}}.q{animation:x 1s both}</style><p class=q>seen</p>",
    "animation that blinks": "<style>@keyframes x{0%{opacity:1}50%{opacity:0}}.q{animation:x 1s infinite}</style><p class=q>seen</p>",
    "named slot of a shadow tree": "<div><template shadowrootmode=open><slot name=z></slot></template><p slot=z>seen</p></div>",
    "slotted otherwise": "<div><template shadowrootmode=open><style>::slotted(.x){display:none}:host([hidden]){display:none}</style>"
    "<slot></slot></template><p>seen</p></div>",
    "group moved back": "<svg width=200 height=50><g transform='translate(9000,20)'><text x=-8990>seen</text></g></svg>",
    "view with an origin": "<svg viewBox='-1000 -1000 2000 2000'><text x=-900 y=-900>seen</text></svg>",
    "scaled letters": "<svg viewBox='0 0 100 100'><g transform='scale(0.0125)'><text x=4000 y=4000>seen</text></g></svg>",
    "turned letters": "<svg width=50 height=400><text transform='rotate(-90)' x=-300 y=20>seen</text></svg>",
    "letters beyond a picture": "<svg width=10 height=10 style='overflow:visible'><text x=200>seen</text></svg>",
    "letters of the reader's language": "<html lang=de><svg><switch><text systemLanguage='de, fr'>seen</text><text>a</text></switch></svg>",
    "letters on a path": "<svg><path id=p d='M0 0h9' /><text><textPath href='#p'>seen</textPath></text></svg>",
    "page in a picture": "<svg><switch><foreignObject requiredExtensions='http://www.w3.org/1999/xhtml'>seen</foreignObject></switch></svg>",
    "style sheet of paper": "<style media=print>.q{display:none}</style><p class=q>seen</p>",
    "box that scrolls": "<div style='max-height:300px;overflow:auto'>seen</div>",
    "usual lines": "<p style='line-height:1;overflow:hidden'>seen</p>",
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_leaves_no_trace_in_a_browser_is_hidden(place: str) -> None:
    parsed = html.read_string(f"<p>text</p>{HIDDEN[place]}")
    assert parsed.text.splitlines()[0] == "text"
    assert "evil" not in parsed.text
    assert "evil" in parsed.hidden


@pytest.mark.parametrize("place", SHOWN)
def test_what_a_browser_draws_is_text(place: str) -> None:
    assert "seen" in html.read_string(f"<p>text</p>{SHOWN[place]}").text
