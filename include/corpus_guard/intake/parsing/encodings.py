"""Guess of the encoding of a text that is neither UTF-8 nor marked: by the languages that are written in each encoding.

Rules

- A hypothesis is an encoding and a language: the text is decoded, and what is not ASCII is compared with how the language is
  written. Frequent letters cost little, letters of other languages much, and so do signs within words, capitals after small
  letters, and words in two scripts. Short frequent words of the language count for it.
- Every piece of the text may be in another language, so that a text with a quotation in a second one is read like the rest.
- Windows-1252 wins a tie: it is the default of browsers and of most old files in the West.
- Chinese, Japanese and Korean encodings are weighed by their characters. Where two of them are near, and where no hypothesis
  explains the text, the guess is left to charset_normalizer.
- Where the next hypothesis is nearly as good and would read other letters, the guess is open (`EncodingGuess.rival`).

Only pieces with bytes that are not ASCII are looked at, from the whole text and up to a limit.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import inf, log
from typing import Final, NamedTuple
from unicodedata import category

SAMPLE_BYTES: Final = 8 * 1024
"""Read at most to guess the encoding, in pieces that hold bytes that are not ASCII."""
OPEN_MARGIN: Final = 2.0
"""Nats by which the best guess must be better than another one that reads other letters."""
MIN_MEAN: Final = -4.0
"""Least mean of the nats of a character that is not ASCII; below it no hypothesis explains the text."""


@dataclass(frozen=True, slots=True)
class EncodingGuess:
    """The likeliest encoding of a text."""

    encoding: str
    rival: str | None = None  # nearly as likely, and it reads other letters


class _Language(NamedTuple):
    """Letters and words of a language, in small letters."""

    encodings: tuple[str, ...]
    letters: str  # that are not ASCII, the likeliest first; also signs of its own
    rare: str  # letters of names and foreign words
    words: str  # short and frequent
    odd: str = ""  # pattern of what it does not write


_WESTERN: Final = ("cp1252", "iso8859-15", "cp850", "mac_roman")
_CENTRAL: Final = ("cp1250", "iso8859-2", "cp852")
_BALTIC: Final = ("cp1257", "iso8859-4")
_CYRILLIC: Final = ("cp1251", "koi8-r", "iso8859-5", "cp866", "mac_cyrillic")

_PRIORS: Final = {
    "cp1252": 0.0, "cp1250": -0.7, "cp1251": -0.5, "cp1253": -0.5, "cp1254": -1.0, "cp1255": -0.5, "cp1256": -0.5,
    "cp1257": -1.0, "iso8859-2": -1.2, "iso8859-4": -3.0, "iso8859-5": -2.0, "iso8859-7": -1.0, "iso8859-15": -1.5,
    "koi8-r": -1.0, "koi8-u": -1.2, "cp850": -3.5, "cp852": -3.5, "cp866": -2.0, "cp874": -1.0, "mac_roman": -4.0,
    "mac_cyrillic": -3.0, "iso8859-6": -1.5,
}  # fmt: skip
"""Nats by which an encoding is rarer than windows-1252."""

_LANGUAGES: Final = {
    "English": _Language(
        _WESTERN, "éèïêüöñçáàôâ", "ëäãåíîóøúûæœ",
        "the of and to in is that it for was on are as with be at by this have from or not an which but they you we can will",
    ),
    "French": _Language(
        _WESTERN, "éèàêçôîûùâëïœ", "æüÿ",
        "de la le les des et en un une du est que qui dans pour sur par pas plus au avec ce il elle se sont cette vous ou ne aux "
        "ont leur mais nous je sa son ses à été être même après très où déjà",
        odd="[àù](?=[^\\W_])|(?<![aeiou])[ëï]|ç(?![aouôâà])",
    ),
    "Italian": _Language(
        _WESTERN, "èàùòìé", "óíú",
        "di la il che per un una non del della le da con si sono alla nel i gli dei al come questo questa lo anche essere ma ha "
        "più è perché può città così già",
        odd="[àèéìòù](?=[^\\W_])",
    ),
    "Portuguese": _Language(
        _WESTERN, "ãáçéíóõêúâàô", "üèò",
        "de a o que e do da em um para com uma os no na por mais as dos se ao ou foi ser pode ela ele mas seu sua este esta "
        "não é à são está você já até também",
        odd="ã(?=[^\\Woes_])|õ(?!e)|ç(?![aouãõáóâôê])|à(?=[^\\Wqs_])",
    ),
    "Spanish": _Language(
        _WESTERN, "óíáéñú¿", "¡üçàèïªº",
        "de la el que en los y se las del un por con una para no su al es lo como o este esta puede sin sobre entre pero ha le "
        "más también está página",
        odd="ñ(?![aeiouáéíóú])",
    ),
    "Catalan": _Language(
        _WESTERN, "àéóèíòçúï·", "üñá",
        "de la el que en els i les del un per amb una no al es ha aquest aquesta dels o si ser pot seva "
        "és més també són",
    ),
    "German": _Language(
        _WESTERN, "üäöß", "éèàçñáóëêåøô",
        "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass sie "
        "wird bei einer um wir nur noch nach oder ich so wie kann über können müssen",
    ),
    "Dutch": _Language(
        _WESTERN, "ëéïèöüó", "êçáàíúäâûô",
        "de het een van en in is dat op te zijn met voor niet aan er die om ook als maar bij of uit dit deze door worden kunnen "
        "u naar wordt heeft hij ze geen nog één",
        odd="(?<![aeiou])[ëï]",
    ),
    "Norwegian": _Language(
        _WESTERN, "øåæ", "éèüöäòóôêç",
        "og i det er en til som av for med at ikke den har de et om fra kan var blir denne dette eller skal du ved brukes vi "
        "men på så må når være også få både",
    ),
    "Danish": _Language(
        _WESTERN, "øåæ", "éèüöäáó",
        "og i det er en til som af for med at ikke den har de et om fra kan var bliver denne dette eller skal du ved man vi men "
        "på så må når være også få både",
    ),
    "Swedish": _Language(
        _WESTERN, "äåö", "éèüæøáàç",
        "och i att det som en av med den till inte om ett har de från var kan eller denna detta vid du ska vi men "
        "på är för så när också får både",
    ),
    "Finnish": _Language(
        _WESTERN, "äö", "åéšžüáèç",
        "ja on ei se oli ovat kun tai voi joka mutta sen kuin jos niin ole sivun joita ovat jonka "
        "että hän myös tämä tämän käyttäjä",
    ),
    "Icelandic": _Language(
        _WESTERN, "íáðæóþöúýé", "åäøü",
        "og er sem til um en ekki var af fyrir hefur eru eða að í á við með það þú frá þessi",
        odd="þ(?![aeiouyáéíóúýöærvj])|(?<![^\\W_])ð",
    ),
    "Polish": _Language(
        _CENTRAL, "łąęóżśćńź", "éüöáäščžíçèë",
        "w i na z do nie jest to o od po za przez dla jak a co ten ta tej tego lub oraz strony ale czy tym ich jego jej ma "
        "się że są być może już także które który",
        odd="[ąę](?=[aeiouy])|v(?=[aeiou])|(?<![^\\W_])[cdkm]?mł(?![^\\W_])",
    ),
    "Czech": _Language(
        _CENTRAL, "íáéěýřčžšůúďťňó", "öüäłôľćńő",
        "a v je na se s z do o to k i pro jako po by od ve byl jsou nebo tato tento jen ale podle mezi nad pod si tak jeho "
        "že za není které který při může být jehož více až",
        odd="ň(?=[^\\W_kos])",
    ),
    "Slovak": _Language(
        _CENTRAL, "áíéýčšžúľťôňóäď", "öüřěůŕĺłćőű",
        "a v je na sa s z do o to k i pre ako po by od vo nie bol alebo tento len podľa ale pri tak jeho "
        "že sú táto ktoré ktorý môže byť bude až",
        odd="[ďťňľ](?=[eiíéáý])",
    ),
    "Hungarian": _Language(
        _CENTRAL, "áéőöíóüűú", "äčšžôłćçëýřńďß",
        "a az nem is egy van volt meg de csak ez el ha vagy mint ki lehet kell ezt ezen nincs hogy minden "
        "és már még után során",
    ),
    "Romanian": _Language(
        ("cp1250", "iso8859-2"), "ăîţşâ", "éöüáóčćšž",
        "de a la cu pe din nu un o care pentru mai este se sunt sau prin ca al ale fi fost dar ei lui o lor poate acest "
        "în şi că să această după până fără",
    ),
    "Croatian": _Language(
        _CENTRAL, "čšžćđ", "éöüáóäłńőß",
        "je i u na se da su za od ne s a o nije kao iz koji koja bi ili do sve po ovo ova ove stranica ako samo ali kada "
        "će još može što već",
    ),
    "Slovenian": _Language(
        _CENTRAL, "čšž", "ćđéöüáóäß",
        "je in v na se da so za ne z s a o ni kot iz ki bi ali do po to ta te tudi pri od ste lahko ni bil le samo ter "
        "če že še več",
    ),
    "Turkish": _Language(
        ("cp1254",), "ıişğüçö", "âîû",
        "ve bir bu ile da de olarak daha olan gibi en ne var her o sonra kadar ya ise veya ancak "
        "için çok değil olduğu",
    ),
    "Lithuanian": _Language(
        _BALTIC, "ėšųįžąčūę", "éüöäōõ",
        "ir yra kad su tai kaip bet ar po jo bus nuo o buvo apie arba iki prie puslapio galite tik "
        "į iš už per šis ši jūs nėra dėl",
    ),
    "Latvian": _Language(
        _BALTIC, "āīēšūžņķļģč", "éüöõ",
        "un ir ar par no uz ka kas to lai bija tas vai pie nav lapas var tika bet ja "
        "šo pēc kā arī šī jūs",
    ),
    "Estonian": _Language(
        (*_BALTIC, *_WESTERN), "äõüö", "šžéå",
        "ja on ei et see oma kui ta ka oli mis seda aga siis selle olla saab nii pole või lehekülje",
    ),
    "Russian": _Language(
        _CYRILLIC, "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё", "",
        "и в не на что с по как это но из у за от о для к до или при же так его был все если может",
    ),
    "Ukrainian": _Language(
        ("cp1251", "koi8-u", "iso8859-5", "mac_cyrillic"), "оанивіетрслкудмпязьгбчйхцжїєшющфґ", "ыэъё",
        "і в не на що з до як це та у за від для або про але його був якщо може",
    ),
    "Bulgarian": _Language(
        _CYRILLIC, "аиоентрсвлкдпмзъубгчщяцжхйшфюь", "ыэ",
        "и в на да се за от не с е са по като че до или това има със",
    ),
    "Serbian": _Language(
        ("cp1251", "iso8859-5", "mac_cyrillic"), "аиоенрстдвукјмплзгбчшцјњжћхљђфџ", "ыйъ",
        "и у је на да се за од не са су о или као до што који из",
    ),
    "Greek": _Language(
        ("cp1253", "iso8859-7"), "αοιετσνηυρπκμλςάίόέήδγχωθύφβώξζψϊΐϋΰ", "",
        "και το να του η της ο την με για στο από που τα τον είναι σε δεν θα οι των στην ένα",
    ),
    "Hebrew": _Language(
        ("cp1255",), "יוהלאמרתבשנםדעפקחזןכטגסצףךץ", "״׳־ְִֵֶַָֹּׁׂ", "של את על לא זה עם או כי אם גם היא הוא כל אין יש"
    ),
    "Arabic": _Language(
        ("cp1256", "iso8859-6"), "المينرتوبةعدسفهكقحجشطصخأىضذءزغظئإآثؤ", "ًٌٍَُِّْـ،؛؟",
        "في من على أن إلى عن هذا هذه لا ما كان مع التي الذي أو",
    ),
    "Persian": _Language(
        ("cp1256",), "اینردمهتوبشسلکعزگفپقحخجطصغچآضذئژثظء", "يكًٌٍَُِّْـ،؛؟",
        "و در به از که این را با است برای آن یک هم تا ها",
    ),
    "Thai": _Language(("cp874",), "านรอกเงมยลวดทสตะปบคหแจพชขใไโผซธถศฐฏณญภษฟฝฉฮฆฬฑฒฎฌฤ", "่้ัีิุูืึ์็ำๆฯฺ๊๋ํ", ""),
}  # fmt: skip

_PIECE_BYTES: Final = 600  # about; each piece may be in a language of its own
_UNKNOWN: Final = -6.0  # a letter of other languages
_RARE: Final = -4.0
_WITHIN: Final = -5.0  # a sign between two letters
_CONTROL: Final = -8.0
_SIGN: Final = -3.5
_COMMON_SIGN: Final = -2.5
_QUOTE: Final = -1.0
_CAPITAL: Final = -2.5  # after a small letter
_TWO_SCRIPTS: Final = -3.0
_BESIDE_DIGIT: Final = -2.5  # a letter
_ALONE: Final = -1.5  # unless it is a word of the language
_LONG_RUN: Final = -1.5  # a third Latin letter in a row that is not ASCII
_WORD: Final = 1.0
_ACCENTED_WORD: Final = 2.0  # with a letter that is not ASCII
_ODD: Final = -2.0
_ASCII_WORD: Final = -0.4  # in a text of another script
_MAX_ASCII_WORDS: Final = -3.0
_UNPAIRED: Final = -2.5  # guillemet
_MAX_REPEATS: Final = 3  # of a word in a piece that count
_QUOTES: Final = frozenset("\u2019\u2018\u201c\u201d\u201e\u00ab\u00bb\u2013\u2014\u2026\u2022\u201a\u2039\u203a\u00a0")
_SIGNS: Final = frozenset(
    "\u00b3\u00bc\u00be\u00b5\u20ac\u00b0\u00a7\u00a9\u00ae\u2122\u00b7\u00a3\u00bd\u00b2\u00ba\u00aa\u00a1\u00bf\u2116\u00ad\u00d7\u00b1"
)
_JOINING: Final = frozenset("\u2019\u00b7\u00ad\u2013\u00a0\u2026\u05be")  # of words
_LINE: Final = re.compile(rb"[^\n\r\x80-\xff]*+[\x80-\xff][^\n\r]*+")
_CONTROLS: Final = bytes({*range(0x20), 0x7F} - {*b"\t\n\v\f\r\x1b"})
_MIN_BYTES_PER_CONTROL: Final = 50  # in a text
_HIGH: Final = re.compile(rb"[\x80-\xff]")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_FIRST_GREEK: Final = "\u0370"  # before it is Latin
_BOXES: Final = "\u2500\u259f"
_JAPANESE: Final = frozenset({"cp932", "euc_jp"})
_EAST_ASIAN: Final = ("cp932", "euc_jp", "gb18030", "big5", "cp949")
_SYLLABLE: Final = -2.2  # kana or hangul; two bytes, like the next four
_RARE_SYLLABLE: Final = -4.5  # kana in Chinese or Korean, hangul that few words have
_COMMON_HANGUL_BYTES: Final = 2  # in EUC-KR, which spells the others out
_COMMON_IDEOGRAPH: Final = -2.0
_OTHER_IDEOGRAPH: Final = -3.4
_EAST_ASIAN_SIGN: Final = -2.0
_KANA: Final = re.compile("[\u3041-\u30ff]")
_HANGUL: Final = re.compile("[\uac00-\ud7a3]")
_IDEOGRAPH: Final = re.compile("[\u4e00-\u9fff]")
_EAST_ASIAN_SIGNS: Final = re.compile("[\u3000-\u301f\uff01-\uff5e\u2010-\u2026\u00b7]")
_HANGUL_BESIDE_OTHERS: Final = re.compile(
    "[\uac00-\ud7a3](?=[\u3041-\u30ff\u4e00-\u9fff])|[\u3041-\u30ff\u4e00-\u9fff](?=[\uac00-\ud7a3])"
)
_COMMON_IDEOGRAPHS: Final = frozenset(
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么心多天而能好都然没"
    "于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长请将您此被该与或页或件名修改使用户信息"
    "這來國個說們為時會過學對裡後麼沒於還發當無開見經頭從動兩長請將頁與該資訊使"
)
_EAST_ASIAN_MARGIN: Final = 3.0
"""Nats by which an East Asian encoding must be better than the next one; else charset_normalizer chooses."""


def guess_encoding(content: bytes) -> EncodingGuess | None:
    """Return the likeliest of the encodings that fit the whole text; None where no hypothesis explains it."""
    controls = len(content) - len(content.translate(None, _CONTROLS))
    if controls * _MIN_BYTES_PER_CONTROL > len(content):
        return None
    pieces = sample_lines(content, SAMPLE_BYTES)
    present = frozenset(content)
    texts = {
        encoding: tuple(piece.decode(encoding) for piece in pieces)
        for encoding in _PRIORS
        if not present & _undefined_bytes(encoding)
    }
    scores = {encoding: _PRIORS[encoding] + _score(encoding, decoded) for encoding, decoded in texts.items()}
    east_asian = _score_east_asian(content, pieces)
    if east_asian and max(east_asian.values()) > max(scores.values(), default=-inf):
        return _choose_east_asian(east_asian)
    if not scores:
        return None
    best, *others = sorted(scores, key=lambda encoding: -scores[encoding])
    if scores[best] < MIN_MEAN * sum(len(_HIGH.findall(piece)) for piece in pieces):
        return None
    rivals = (
        encoding
        for encoding in others
        if scores[best] - scores[encoding] < OPEN_MARGIN and _differ_in_letters(texts[best], texts[encoding])
    )
    return EncodingGuess(best, next(rivals, None))


def _choose_east_asian(scores: dict[str, float]) -> EncodingGuess | None:
    best, *others = sorted(scores, key=lambda encoding: -scores[encoding])
    is_clear = not others or scores[best] - scores[others[0]] >= _EAST_ASIAN_MARGIN
    return EncodingGuess(best) if is_clear else None


def name_encoding(encoding: str) -> str:
    """Return the name by which mail programs and browsers call an encoding of Python."""
    return re.sub(r"\Acp(125\d)\Z", r"windows-\1", encoding)


def sample_lines(content: bytes, limit: int) -> list[bytes]:
    """Return the first lines that hold bytes that are not ASCII, joined to pieces; the last is cut at `limit` bytes in all."""
    pieces: list[bytes] = []
    pending: list[bytes] = []
    budget, size = limit, 0
    for match in _LINE.finditer(content):
        line = match[0][:budget]
        budget -= len(line)
        size += len(line)
        pending.append(line)
        if size >= _PIECE_BYTES or budget <= 0:
            pieces.append(b"\n".join(pending))
            pending, size = [], 0
        if budget <= 0:
            break
    return [*pieces, b"\n".join(pending)] if pending else pieces


@cache
def _undefined_bytes(encoding: str) -> frozenset[int]:
    decoded = {byte: bytes([byte]).decode(encoding, "replace") for byte in range(256)}
    return frozenset(byte for byte, character in decoded.items() if character == "\ufffd")


class _Model(NamedTuple):
    """A language, prepared for counting."""

    costs: dict[str, float]
    words: dict[str, float]
    odd: re.Pattern[str] | None
    is_latin: bool


@cache
def _models_of(encoding: str) -> tuple[_Model, ...]:
    return tuple(_make_model(language) for language in _LANGUAGES.values() if encoding in language.encodings)


def _make_model(language: _Language) -> _Model:
    costs = dict.fromkeys(language.rare, _RARE)
    costs |= {letter: -0.6 * log(rank + 2) for rank, letter in enumerate(language.letters)}
    is_latin = language.letters[0] < _FIRST_GREEK
    words = {word: _WORD if word.isascii() or not is_latin else _ACCENTED_WORD for word in language.words.split()}
    return _Model(costs, words, re.compile(language.odd) if language.odd else None, is_latin)


def _score(encoding: str, pieces: tuple[str, ...]) -> float:
    """Return the nats of the likeliest language of each piece, summed."""
    return sum(_score_piece(text, _models_of(encoding)) for text in pieces)


def _score_piece(text: str, models: tuple[_Model, ...]) -> float:
    shared, letters = _count_characters(text)
    small = text.lower()
    words = Counter(_LETTERS.findall(small))
    ascii_words = sum(number for word, number in words.items() if len(word) > 2 and word.isascii())
    return shared + max(
        sum(number * model.costs.get(letter, _default_cost(letter)) for letter, number in letters.items())
        + sum(model.words[word] * min(words[word], _MAX_REPEATS) for word in model.words.keys() & words.keys())
        + (_ODD * len(model.odd.findall(small)) if model.odd else 0.0)
        + (0.0 if model.is_latin else max(_ASCII_WORD * ascii_words, _MAX_ASCII_WORDS))
        for model in models
    )


def _default_cost(character: str) -> float:
    if character in _QUOTES:
        return _QUOTE
    if character in _SIGNS:
        return _COMMON_SIGN
    if character.isalpha():
        return _UNKNOWN
    return _SIGN if character.isprintable() else _CONTROL


def _count_characters(text: str) -> tuple[float, Counter[str]]:
    """Return what the places of characters cost in any language, and how often each small letter or sign occurs."""
    cost, letters = 0.0, Counter[str]()
    padded = f"  {text} "
    for match in _NOT_ASCII.finditer(padded):
        place = match.start()
        earlier, before, character, after = tuple(padded[place - 2 : place + 2])
        letters[character.lower()] += 1
        if character.isalpha() and character not in _SIGNS:
            if character.isupper() and before.islower():
                cost += _CAPITAL
            cost += _ALONE * (not before.isalpha() and not after.isalpha())
            cost += _BESIDE_DIGIT * (before.isdigit() or after.isdigit())
            if character >= _FIRST_GREEK:
                cost += _TWO_SCRIPTS * ((before.isascii() and before.isalpha()) + (after.isascii() and after.isalpha()))
            elif not before.isascii() and not earlier.isascii() and before.isalpha() and earlier.isalpha():
                cost += _LONG_RUN
        elif _BOXES[0] <= character <= _BOXES[1]:
            cost += _WITHIN * (before.isalpha() or after.isalpha())
        elif before.isalpha() and after.isalpha() and character not in _JOINING and not _is_mark(character):
            cost += _WITHIN
    return cost + _UNPAIRED * abs(text.count("\u00ab") - text.count("\u00bb")), letters


def _is_mark(character: str) -> bool:
    return category(character).startswith("M")


def _score_east_asian(content: bytes, pieces: list[bytes]) -> dict[str, float]:
    """Return the nats of each Chinese, Japanese and Korean encoding that fits the whole text."""
    scores = {}
    for encoding in _EAST_ASIAN:
        with suppress(UnicodeDecodeError):
            content.decode(encoding)
            scores[encoding] = sum(_score_ideographs(encoding, piece.decode(encoding, "replace")) for piece in pieces)
    return scores


def _score_ideographs(encoding: str, text: str) -> float:
    cost = 0.0
    own_kana = encoding in _JAPANESE
    padded = f" {text} "
    for match in _NOT_ASCII.finditer(padded):
        place = match.start()
        before, character, after = tuple(padded[place - 1 : place + 2])
        cost += _TWO_SCRIPTS * ((before.isascii() and before.isalpha()) + (after.isascii() and after.isalpha()))
        if _KANA.match(character):
            cost += _SYLLABLE if own_kana else _RARE_SYLLABLE
        elif _HANGUL.match(character):
            cost += _SYLLABLE if len(character.encode("euc_kr", "ignore")) == _COMMON_HANGUL_BYTES else _RARE_SYLLABLE
        elif _IDEOGRAPH.match(character):
            cost += _COMMON_IDEOGRAPH if character in _COMMON_IDEOGRAPHS else _OTHER_IDEOGRAPH
        else:
            cost += _EAST_ASIAN_SIGN if _EAST_ASIAN_SIGNS.match(character) else 2 * _UNKNOWN
    return cost + _TWO_SCRIPTS * len(_HANGUL_BESIDE_OTHERS.findall(text))


def _differ_in_letters(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Return whether the first reading has letters, or signs beside letters, in whose places the second has other characters."""
    for text, other_text in zip(first, second, strict=True):
        padded = f" {text} "
        for place, other in enumerate(other_text):
            before, character, after = padded[place], padded[place + 1], padded[place + 2]
            if character.lower() == other.lower():
                continue
            if character.isalpha() or (other.isalpha() and (before.isalpha() or after.isalpha())):
                return True
    return False
