"""Words of English: those that say nothing of a subject, and those that are forms of one word.

Two sentences are about the same thing when each word of one has its match in the other. What must not count as
a difference is listed here; what is not listed counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from corpus_guard.claims.negation import OPPOSITES, SAME_WORDS

_FUNCTION_WORDS: Final = (
    "a an the and or but if then than that this these those there here it its he she they we us our you your i me my his her "
    "them their who whom whose which what when where why how is are was were be been being am do does did done has have had "
    "having will would shall should can could may might must need needs needed to of in on at by for from with about as into "
    "onto over under per through during before after between within without not no nor never yes cannot so such also only "
    "just very too more less most least much many some any all each every both either neither once twice times now still yet "
    "again while because since until unless however therefore thus up down out off one two three four five six seven eight "
    "nine ten approximately around roughly exactly currently usually always please recommended "
    "according official officially states stated says said don't doesn't isn't aren't wasn't can't won't mustn't shouldn't"
)
_WORDS_OF_STATING: Final = (
    "expect expected keep keeps kept stay stays stayed get gets got getting give gives gave given take takes took taken taking "
    "go goes went going come comes came coming make makes made let lets see seen saw tell tells told find finds found know "
    "known knows think thinks thought ask asked confirm confirmed confirms report reports reported write writes wrote written "
    "show shows shown use used uses using try want like really simply actually easily often experience opinion note notes tip "
    "fact facts news today present people everybody anybody somebody person remember careful precisely "
    "whole single later long-time own sure required advise advised advice say immediate effect everyone anyone "
    "allowed able possible due become becomes became happen happens happened means meant call calls called regular regularly "
    "contain contains contained containing whatever wonder mr mrs ms dr prof "
    "earn earns earned himself herself itself themselves yourself others other another else course good example examples below following "
    "period duration enough mere merely barely hardly"
)
_PLAIN: Final = frozenset(f"{_FUNCTION_WORDS} {_WORDS_OF_STATING}".split())
EMPTY: Final = _PLAIN | {word for word, plain in (OPPOSITES | SAME_WORDS).items() if plain in _PLAIN}
"""Words that say nothing of what a sentence is about."""

_GROUPS: Final = """
fly flies flew flight flown
weigh weighs weight weighing mass
manufacture manufactured manufacturer produce produced producer maker
approve approved approval
inspect inspected inspection check checked checks
telephone phone
mail e-mail email
buy bought purchase purchased
start starts started begin begins began begun beginning
end ends ended ending finish finished
photograph photographs photo photos picture pictures
high height tall
maximum max maximal
minimum min minimal
long length
deep depth
wide width
warm temperature
cost costs price prices pay pays paid
charge charges charged fee fees
lose loses lost loss
leave leaves left depart departs departed departure
arrive arrives arrived arrival
grow grew grown growth
die dies died death
payment payments
store stores stored storage
measure measures measured measurement
encrypt encrypts encrypted encryption
locate located location
populate population inhabitant inhabitants
found founded founder foundation
invent invented inventor invention
build builds built
open opens opened opening
close closes closed closing
move moves moved moving
choose chose chosen choice
speak spoke spoken speech
hold holds held
lead leads led leader
sell sells sold sale sales
send sends sent
teach taught teacher
drive drives drove driven driver
run runs ran running
free freely
safe safety safely
valid validity
treat treated treats treatment
bear born birth
child children
woman women
man men
foot feet
break breaks broke broken
bring brings brought
catch catches caught
draw draws drew drawn
drink drinks drank drunk
eat eats ate eaten
fall falls fell fallen
feed feeds fed
feel feels felt
fight fights fought
forbid forbids forbade forbidden
forget forgets forgot forgotten
freeze freezes froze frozen
hide hides hid hidden
meet meets met
ride rides rode ridden
rise rises rose risen
shake shakes shook shaken
sing sings sang sung
sink sinks sank sunk
sit sits sat
sleep sleeps slept
spend spends spent
stand stands stood
steal steals stole stolen
swim swims swam swum
throw throws threw thrown
understand understands understood
wear wears wore worn
win wins won winner
withdraw withdraws withdrew withdrawn withdrawal
lend lends lent loan loans borrow borrows borrowed
put puts pack packs packed
breed breeds bred breeder breeders
design designs designed designer designers
direct directs directed director directors
operate operates operated operator operators
compose composes composed composer composers
own owns owned owner owners
lie lies lay lain
sign signs signed signature
elect elects elected election
permit permits permitted permission
carry carries carried carrying load loads loaded bears bearing withstand withstands
cancel cancels cancelled canceled cancellation
reimburse reimburses reimbursed reimbursement refund refunds refunded
repair repairs repaired mend mends mended
renew renews renewed renewal
replace replaces replaced replacement exchange exchanges exchanged swap swaps swapped
deliver delivers delivered delivery ship ships shipped shipment
erupt erupts erupted eruption
employ employs employed employee employees staff
erase erases erased delete deletes deleted deletion
recover recovers recovered recovery restore restores restored restoration
resident residents
kid kids infant infants baby babies
illness illnesses disease diseases
doctor doctors physician physicians
drug drugs medicine medicines medication medications
car cars automobile automobiles
film films movie movies
admit admits admitted admission entry entrance
apply applies applied application applications
retain retains retained retention
expire expires expired expiry expiration
notify notifies notified notification inform informs informed
guarantee guarantees guaranteed warranty warranties
salary salaries wage wages
purpose purposes aim aims
velocity speed
holiday holidays vacation vacations
lift lifts elevator elevators
flat flats apartment apartments
petrol gasoline
tap taps faucet faucets
consume consumes consumed consumption
respond responds responded response reply replies replied
assist assists assisted assistance
attempt attempts attempted
author authors
vote votes voted voting
succeed succeeds succeeded
half halves
life lives
analyse analysis analyze
year annual annually yearly
day daily
month monthly
week weekly
"""
_SAME: Final = {spelling: words.split()[0] for words in _GROUPS.strip().splitlines() for spelling in words.split()}
_ENDINGS: Final = ("ations", "ation", "ating", "ated", "ates", "ate", "ings", "ing", "ies", "ed", "es", "s", "e", "y")


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Return a word without its English ending and its own negation: "calibrated" and "calibration" are one."""
    word = word.lower().strip("'-").removesuffix("'s").removesuffix("'")
    word = word[2:] if word[1:2] == "-" and word != "e-mail" else word  # "e-bike"
    word = OPPOSITES.get(word) or SAME_WORDS.get(word) or word
    if word in _SAME:
        return _SAME[word]
    for ending in _ENDINGS:
        least = 3 if ending == "s" and word[-2:] not in {"ss", "us", "is"} else 4
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word  # "stopped" and "stops"
