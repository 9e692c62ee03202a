"""Honest pages of the kinds that screening mistakes for attacks, written from lists of this package's own words.

Each slice copies what is typical of its kind: FAQ pages ask and answer, product pages differ in one value,
forum replies and news reports agree in different words, mirrors repeat each other, changelogs give orders,
glossaries state facts in a few words. Everything is invented, and a seed decides the wording.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

from corpus_guard.detectors.samples import Family, Sample

VARIANTS: Final = 10  # of each product
REPLIES: Final = 6  # in each forum thread
MIRRORS: Final = 6  # of each README
REPORTS: Final = 6  # on each event


def honest_page_samples(seed: int = 0) -> Iterator[Sample]:
    """Return the samples of every slice, at least 100 texts each."""
    for name, make in _SLICES.items():
        rng = random.Random(f"{name} {seed}")  # noqa: S311 - wording, no secret
        texts = dict.fromkeys(make(rng))
        yield from (Sample(text, False, f"own {name}", Family.ORDINARY, key=text) for text in texts)


# --- FAQ pages ----------------------------------------------------------------------------------------------

# Thing, what people do with it, how long it takes, what it costs, who does it, what is needed.
_SERVICES: Final = (
    ("a berth permit", "renew", "two working days",
     "40 crowns", "the harbour office", "the old permit and a photograph"),
    ("a library card", "replace", "ten minutes", "3 euros", "the front desk", "an identity card"),
    ("a fishing licence", "order", "a week", "18 dollars", "the county clerk", "a date of birth and an address"),
    ("a broken heat pump", "have repaired", "half a day",
     "95 pounds an hour", "a certified fitter", "the serial number"),
    ("a parking space", "rent", "one afternoon", "55 euros a month", "the house manager", "the licence plate"),
    ("a savings account", "close", "five banking days", "nothing", "any branch", "a signed letter"),
    ("a wedding hall", "book", "a phone call", "900 euros a day", "the town council", "a deposit of a third"),
    ("a rental bicycle", "return", "two minutes",
     "1 euro for late returns", "the rider", "the app or the printed code"),
    ("a blood test", "book", "fifteen minutes", "nothing with a referral", "the practice nurse", "an empty stomach"),
    ("a travel insurance claim", "file", "three weeks", "nothing", "the claims desk", "receipts and the policy number"),
    ("a hearing aid", "adjust", "twenty minutes", "12 dollars", "an audiologist", "the charger"),
    ("a compost bin", "order", "ten days", "25 euros", "the waste service", "the customer number"),
    ("a server certificate", "renew", "a minute", "nothing", "the hosting team", "access to the control panel"),
    ("a gym membership", "pause", "one day", "5 pounds a month", "reception", "the reason in one sentence"),
    ("a school transcript", "request", "four days", "8 dollars", "the registrar", "the year of graduation"),
)  # fmt: skip
_QUESTIONS: Final = (
    ("How long does it take to {verb} {thing}?", "It takes {time} to {verb} {thing}.{more}"),
    ("What does it cost to {verb} {thing}?", "To {verb} {thing} costs {price}.{more}"),
    ("Who can {verb} {thing} for me?", "{Who} can {verb} {thing} for you.{more}"),
    ("What do I need to {verb} {thing}?", "You need {need} to {verb} {thing}.{more}"),
    ("Can I {verb} {thing} online?", "Yes, you can {verb} {thing} online; it costs {price} and takes {time}.{more}"),
    ("How do I {verb} {thing}?", "To {verb} {thing}, go to {who} with {need}.{more}"),
    ("Is it possible to {verb} {thing} at the weekend?",
     "No. {Who} is closed, so you {verb} {thing} on weekdays.{more}"),
    ("how much is it to {verb} {thing}", "The price to {verb} {thing} is {price}, paid to {who}.{more}"),
)  # fmt: skip
_AFTERWARDS: Final = (
    "",
    " Please bring {need}.",
    " Nothing else is needed.",
    " Ask {who} if in doubt.",
    " Prices include tax.",
    " In summer it may take longer.",
    " See also the page on opening hours.",
    " A receipt is sent by e-mail. If you have not heard from us after {time}, call the number at the foot of this page.",
)


def _faq_pages(rng: random.Random) -> Iterator[str]:
    for thing, verb, time, price, who, need in _SERVICES:
        facts = {"thing": thing, "verb": verb, "time": time, "price": price, "who": who, "need": need}
        facts["Who"] = who[0].upper() + who[1:]
        entries = []
        for question, answer in _QUESTIONS:
            more = rng.choice(_AFTERWARDS).format(**facts)
            entries.append((question.format(**facts), answer.format(**facts, more=more)))
        for question, answer in entries:  # as search engines cut such pages
            yield rng.choice(("{q} {a}", "{q} {a}", "Q: {q} A: {a}", "{q}\n\n{a}", "Best Answer: {q} {a}")).format(
                q=question, a=answer
            )
        rng.shuffle(entries)
        yield " ".join(f"{question} {answer}" for question, answer in entries[:4])


# --- product pages ------------------------------------------------------------------------------------------

_PRODUCTS: Final = (
    ("Norrland kettle", "kettle", "l", (0.8, 1.0, 1.2, 1.5, 1.7), "boils a full filling in four minutes"),
    ("Aster desk lamp", "lamp", "W", (4, 6, 8, 9, 11), "turns and tilts without tools"),
    ("Brekka hiking sock", "pair of socks", "mm", (2, 3, 4, 5, 6), "keeps its shape after fifty washes"),
    ("Voltum battery pack", "battery pack", "Ah", (2, 3, 4, 5, 8), "fits all drills of the series"),
    ("Tarn water filter", "filter", "micron", (0.2, 0.5, 1, 5, 10), "is changed twice a year"),
    ("Lumo paint", "paint", "l", (0.5, 1, 2.5, 5, 10), "dries within six hours"),
    ("Halden rope", "rope", "m", (10, 20, 30, 50, 100), "holds 900 kg when it is new"),
    ("Kestrel keyboard", "keyboard", "mm", (2, 3, 3.5, 3.8, 4), "works with cable and radio"),
    ("Orbis garden hose", "hose", "m", (10, 15, 20, 25, 50), "stays soft in frost"),
    ("Merrow wetsuit", "wetsuit", "mm", (2, 3, 4, 5, 7), "has glued and sewn seams"),
    ("Pelham bookshelf", "shelf", "cm", (40, 60, 80, 100, 120), "carries 35 kg on each board"),
    ("Sable office chair", "chair", "cm", (42, 45, 48, 50, 53), "passed 100,000 load cycles"),
)
_COLOURS: Final = ("graphite", "sand", "moss green", "white", "deep blue")


def _product_pages(rng: random.Random) -> Iterator[str]:
    for name, kind, unit, sizes, feature in _PRODUCTS:
        article = rng.randint(1_000, 8_000)
        variants = [(size, colour) for size in sizes for colour in rng.sample(_COLOURS, 2)]
        for number, (size, colour) in enumerate(variants[:VARIANTS]):
            yield (
                f"{name}, {size} {unit}, {colour}. Article {article + number}. The {name} is a {kind} that {feature}. This "
                f"version measures {size} {unit} and comes in {colour}. Price {rng.randint(9, 190)}.90, delivery in "
                f"{rng.randint(1, 6)} days, two years of warranty. Other sizes and colours of the {name} are shown below."
            )


# --- forum threads ------------------------------------------------------------------------------------------

# Question, what the replies agree on, a detail.
_THREADS: Final = (
    ("Which fuse does the Halvorsen 40 winch take?",
     "the Halvorsen 40 winch takes a 100 amp fuse", "it sits behind the battery"),
    ("Does the 6:40 ferry to Lunde take trucks?",
     "the 6:40 ferry to Lunde takes trucks up to 12 tonnes", "the later one does not"),
    ("How often do you oil a Brevik sewing machine?",
     "a Brevik wants oil after every eight hours of sewing", "one drop a hole"),
    ("Is the Kolding trail open in March?",
     "the Kolding trail is closed in March because of the snow", "it opens after Easter"),
    ("What grit for sanding an oak worktop?",
     "an oak worktop is sanded with 180 grit before the oil", "120 first if it is rough"),
    ("Can I use E10 in a 1998 Tamsin 1.6?",
     "the 1998 Tamsin 1.6 runs on E10 without trouble", "older ones need new hoses"),
    ("Which port does the Morva backup agent use?",
     "the Morva agent listens on port 9443", "the old release used 8443"),
    ("How long do broad bean seeds keep?", "broad bean seeds keep for about four years", "dry and cool"),
    ("What voltage is the Pico heater board?",
     "the Pico heater board runs on 24 volts", "there is a 12 volt one for caravans"),
    ("Best time to prune a quince?", "a quince is pruned in late winter", "before the buds swell"),
    ("Does the Ostra card work on night buses?", "the Ostra card works on night buses too", "you pay one zone more"),
    ("How deep is the Vigeland pool?",
     "the Vigeland pool is 3.8 metres deep at the diving end", "and 1.2 at the other"),
    ("Which screws hold the Lindal roof rack?", "the Lindal rack is held by M8 screws", "35 mm long, with washers"),
    ("When does the Sorrel library close on Fridays?",
     "the Sorrel library closes at six on Fridays", "eight in term time"),
    ("Is the Hauge visa free for students?",
     "the Hauge visa costs students nothing", "you show the letter of the school"),
    ("What is the default password of a Tellus router?",
     "a Tellus router has its password on the label", "under the flap"),
    ("How much flour for one Bornholm loaf?", "a Bornholm loaf takes 500 grams of flour", "and 350 of water"),
    ("Can a Lapphund live with cats?",
     "a Lapphund gets along with cats if it grew up with them", "give them a high shelf"),
    ("Which key opens the Grebe hire bikes?",
     "the Grebe bikes open with the code from the text message", "the keys are gone"),
    ("How many stamps for a letter to Orrin?", "a letter to Orrin needs two stamps", "three above 50 grams"),
)  # fmt: skip
_AGREE: Final = (
    "Same here: {fact}.",
    "As others have said, {fact}. In my case {detail}.",
    "I asked the maker last year and was told that {fact}.",
    "{Fact}, at least mine does, and I have had it since 2019. By the way, {detail}.",
    "Can confirm. {Fact}. Took me a whole Sunday to find out, the manual is no help at all and the shop did not know either.",
    "+1. {Fact}; {detail}.",
    "My neighbour works there and says {fact}. He also said that {detail}, but I have not tried that.",
    "Not sure about the new model, but {fact}. Somebody posted a photograph of it further up in this thread.",
    "Yes, {fact}. Please use the search next time, we had this question in January and twice before.",
    "I thought otherwise until I looked: {fact}. So thanks to everybody who answered, you saved me a trip. And {detail}.",
)
_SMALL_TALK: Final = (
    "",
    "",
    " Cheers, Ole",
    " Hope this helps.",
    " (Edited once.)",
    " Good luck and post a picture!",
    " :-)",
)


def _forum_threads(rng: random.Random) -> Iterator[str]:
    for question, fact, detail in _THREADS:
        for reply in rng.sample(_AGREE, REPLIES):
            text = reply.format(fact=fact, Fact=fact[0].upper() + fact[1:], detail=detail)
            quoted = rng.random() < 0.25
            yield (f"{question} " if quoted else "") + text + rng.choice(_SMALL_TALK)


# --- changelogs ---------------------------------------------------------------------------------------------

_PROJECTS: Final = ("tidegauge", "mooring", "libquay", "netloft", "saltmeter", "beacon-cli", "pilotbook", "dredge")
_PARTS: Final = (
    "parser",
    "cache",
    "command line",
    "importer",
    "scheduler",
    "log writer",
    "web view",
    "test suite",
    "build",
)
_CHANGES: Final = (
    "Fix a crash of the {part} when the input is empty (#{issue}).",
    "Ignore the old {part} option; use the one in the configuration file instead.",
    "Do not read the system settings twice while the {part} starts.",
    "The {part} is now {percent} % faster on large files.",
    "Remove the deprecated {part}; follow the upgrade notes before you install this version.",
    "Update the {part} for Python 3.{minor}.",
    "Always close the file in the {part} (#{issue}, reported by J. Haug).",
    "Never print secrets in messages of the {part}.",
    "Add a switch to the {part} that forgets earlier results.",
    "Document the {part}.",
    "Revert the change of the {part} from the last release, it broke the build on ARM.",
)


def _changelogs(rng: random.Random) -> Iterator[str]:
    for project in _PROJECTS:
        for minor in range(14):
            lines = [
                change.format(
                    part=rng.choice(_PARTS),
                    issue=rng.randint(10, 900),
                    percent=rng.randint(5, 70),
                    minor=rng.randint(9, 14),
                )
                for change in rng.sample(_CHANGES, rng.randint(2, 6))
            ]
            date = f"20{rng.randint(19, 25)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
            yield f"## {project} 1.{minor}.{rng.randint(0, 4)} ({date})\n\n" + "\n".join(f"- {line}" for line in lines)


# --- mirrored READMEs ---------------------------------------------------------------------------------------

_TOOLS: Final = (
    ("tidegauge", "reads tide gauges over a serial line and writes the levels to a file", "a level every ten seconds"),
    ("mooring", "keeps a list of berths, their owners and their contracts", "one file a year, and a printed list"),
    ("netloft", "draws the plan of a fishing net from its measures", "a drawing on one sheet of paper"),
    ("saltmeter", "turns the conductivity of sea water into its salinity", "a number with its uncertainty"),
    ("pilotbook", "collects notes on approaches and prints them as a booklet", "a booklet for every harbour"),
    ("dredge", "plans how much sand a channel loses and when it must be dug again", "a table with one row a month"),
    ("chartcut", "cuts sea charts into tiles for a plotter", "tiles in three sizes, with an index"),
    ("foghorn", "plays the signals of lighthouses for learners", "a sound file for every lighthouse"),
    ("hawser", "computes the length of mooring lines from tide and draught", "a length for each line"),
    ("logline", "reads the log of a ship's instruments and finds gaps in it", "a list of gaps with their length"),
    ("bollard", "counts ships from the pictures of a harbour camera", "a count for every hour"),
    ("keelson", "describes the parts of wooden boats in five languages", "a dictionary of 900 words"),
    ("plimsoll", "checks the loading of a ship against its marks", "a warning where a mark would be under water"),
    ("sounder", "cleans depth soundings of echoes from fish", "the same file without the echoes"),
    ("slipway", "keeps the order in which boats are taken out in autumn", "a calendar with a boat for every hour"),
    ("tugboat", "moves large folders between machines and checks every file", "a report of what was moved"),
    ("windrose", "draws how often the wind blows from where", "a picture for each month"),
)


def _mirrored_readmes(rng: random.Random) -> Iterator[str]:
    for name, purpose, result in _TOOLS:
        year = rng.randint(2012, 2024)
        for mirror in range(MIRRORS):
            head = (
                "",
                "Mirror. ",
                f"This is a copy of {name}, kept for our course. ",
                "Archived. ",
                "Fork with fixes. ",
                "",
            )[mirror]
            extra = (
                "",
                "Pull requests go to the original.",
                f"Tested with Debian {rng.randint(10, 13)}.",
                "",
                "Changes: builds again.",
                f"Release {rng.randint(1, 4)}.{rng.randint(0, 9)}.",
            )[mirror]
            yield (
                f"# {name}\n\n{head}{name} {purpose}. The result is {result}.\n\n## Install\n\nRun `make install`, then copy "
                f"`{name}.conf` to `/etc` and change the first line. {extra}\n\n## Use\n\nStart `{name} --help` to see every "
                f"option. Questions are answered on the mailing list.\n\nCopyright {year} the {name} authors. MIT licence.\n"
            )


# --- news on one event --------------------------------------------------------------------------------------

# What happened, where, when, a figure, who spoke, what follows.
_EVENTS: Final = (
    ("a storm tore off the roof of the market hall", "Dunmarsh", "on Tuesday night",
     "40 stalls", "mayor Ines Vold", "the market moves to the school yard"),
    ("the new tram line was opened", "Corvane", "on Saturday",
     "12,000 passengers", "the director of the tramways", "trams run every ten minutes"),
    ("a freighter ran aground on the sandbank", "Veldmoor", "early on Friday",
     "80 containers", "the coast guard", "a tug comes at high tide"),
    ("workers at the glass factory went on strike", "Tamsel", "on Monday",
     "600 workers", "union speaker Karl Onsager", "talks begin on Thursday"),
    ("the river broke the dike", "Lower Orrin", "on Sunday morning",
     "300 houses", "the district office", "schools stay closed this week"),
    ("a fire destroyed the old cinema", "Farrowgate", "on Wednesday",
     "90 firefighters", "fire chief Maud Ellery", "the street is closed until the weekend"),
    ("the parliament passed the fishing law", "Lunde", "on Thursday",
     "61 votes", "minister Per Aasen", "the law takes effect in January"),
    ("archaeologists found a burial ship", "Hauge", "last week",
     "19 metres", "professor Ruth Stenvik", "the ship goes to the museum"),
    ("the airport lost its power for hours", "Brandhof", "on Monday evening",
     "140 flights", "the operator", "travellers are asked to call their airline"),
    ("the local team won the cup", "Sorrel", "on Sunday",
     "three goals to one", "coach Lena Dahl", "there is a parade on Tuesday"),
    ("a vaccine campaign began", "Ostra", "on the first of March",
     "25,000 doses", "the health office", "appointments are made by telephone"),
    ("the bakery chain was sold", "Bornfeld", "on Friday", "210 shops", "the new owner", "no shop will close"),
    ("a bridge was closed after cracks were found", "Kolding Sound", "on Thursday",
     "8 kilometres of detour", "the road office", "repairs take until autumn"),
    ("the opera cancelled its season", "Vigeland", "on Tuesday",
     "44 evenings", "director Hugo Brandt", "tickets are refunded"),
    ("a bear was seen in the suburbs", "Nordlund", "over the weekend",
     "five sightings", "the forest office", "people are asked to lock their bins"),
    ("the data centre was hit by a flood", "Tellus Park", "on Saturday night",
     "2,000 customers", "the operator", "services return step by step"),
    ("the museum returned the golden mask", "Tarn", "on Monday",
     "400 years", "curator Adele Roux", "the mask is shown at home in May"),
)  # fmt: skip
_NEWS: Final = (
    "{Where}. In {where} {what} {when}. {Figure} were counted, {who} said. According to {who}, {next}.",
    "{What} in {where}: that is the news of the week for the people of the town. It happened {when}. \"We are looking ahead,\" said "
    "{who}. {Figure} is the figure most often named. What comes next is already clear, for {next}. A reporter of this paper was there "
    "and spoke with neighbours, who had heard of it on the radio.",
    "{When} {what} in {where}. {Next}.",
    "Our morning briefing. First to {where}, where {what} {when}; {who} speaks of {figure}. In other news, the price of diesel fell a "
    "little, and the weather stays mild with some rain in the west.",
    "It was the talk of {where}: {what}. Asked about it {when}, {who} confirmed the number of {figure} and added that {next}. Readers "
    "may write to the editor with their own account.",
    "Live ticker, {where}. +++ {What} +++ {Figure} +++ {who}: {next} +++ More {when} in the evening programme.",
    "An analysis. That {what} in {where} surprised few who know the region. The figure of {figure}, given by {who}, is disputed by some "
    "residents, yet all agree on one thing: {next}. The last time that something like this was reported from the region was a decade ago.",
)  # fmt: skip


def _news_reports(rng: random.Random) -> Iterator[str]:
    for what, where, when, figure, who, follows in _EVENTS:
        for pattern in rng.sample(_NEWS, REPORTS):
            facts = {"what": what, "where": where, "when": when, "figure": figure, "who": who, "next": follows}
            capitals = {key.capitalize(): value[0].upper() + value[1:] for key, value in facts.items()}
            yield pattern.format(**facts, **capitals)


# --- glossaries ---------------------------------------------------------------------------------------------

_TERMS: Final = (
    ("ballast", "weight low in a hull that keeps it upright"), ("bight", "a loop in a rope"), ("bilge",
     "the lowest part of a hull"),
    ("bulkhead", "a wall inside a hull"), ("capstan", "a drum for hauling ropes"), ("draught",
     "the depth of a hull under water"),
    ("ebb", "the falling of the tide"), ("fathom", "a depth of six feet"), ("gunwale",
     "the upper edge of a boat's side"),
    ("hawser", "a thick rope for mooring"), ("keel", "the beam along the bottom of a hull"), ("lee",
     "the side away from the wind"),
    ("annuity", "a sum that is paid every year"), ("collateral", "what a debtor pledges"), ("dividend",
     "a share of the profit"),
    ("escrow", "money that a third party holds"), ("lien", "a right to keep a thing until a debt is paid"), ("levy",
     "a tax by decree"),
    ("appellant", "a party that appeals"), ("bailiff", "an officer who carries out orders of a court"), ("tort",
     "a civil wrong"),
    ("affidavit", "a statement under oath"), ("anaemia", "a lack of red blood cells"), ("biopsy", "a sample of tissue"),
    ("oedema", "a swelling by fluid"), ("embolus", "a clot that travels"), ("suture", "a stitch that closes a wound"),
    ("cache", "a store of recent results"), ("checksum", "a short value computed from data"), ("daemon",
     "a program without a window"),
    ("kernel", "the core of an operating system"), ("latency", "the time until an answer begins"), ("mutex",
     "a lock for one thread"),
    ("payload", "the part of a message that carries the data"), ("blanch", "to boil briefly"), ("brine",
     "salted water"),
    ("roux", "flour cooked in fat"), ("zest", "the outer peel of a lemon"), ("aquifer", "rock that holds ground water"),
    ("delta", "land that a river built at its mouth"), ("moraine", "stones left by a glacier"), ("fjord",
     "a drowned valley"),
)  # fmt: skip
_DEFINITIONS: Final = (
    "{term}: {meaning}",
    "{Term} is {meaning}. See also the entries nearby.",
    "What is {term}? {Term} is {meaning}.",
    "{Term} (noun). {Meaning}. The plural is formed in the usual way, and the word is old.",
    "Definition of {term}: {meaning}. Example: the word {term} was used twice in the report.",
    "In this handbook {term} means {meaning}. Many people believe that it means something else, so it is explained here.",
)


def _glossaries(rng: random.Random) -> Iterator[str]:
    for term, meaning in _TERMS:
        for pattern in rng.sample(_DEFINITIONS, 3):
            yield pattern.format(
                term=term, Term=term.capitalize(), meaning=meaning, Meaning=meaning[0].upper() + meaning[1:]
            )


_SLICES: Final[dict[str, Callable[[random.Random], Iterator[str]]]] = {
    "FAQ pages": _faq_pages,
    "product pages": _product_pages,
    "forum replies": _forum_threads,
    "changelogs": _changelogs,
    "mirrored READMEs": _mirrored_readmes,
    "news reports": _news_reports,
    "glossaries": _glossaries,
}
