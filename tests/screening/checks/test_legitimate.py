"""Invisible and unusual characters that honest writing needs: no check of characters or spelling says more than a note."""

from __future__ import annotations

import pytest
from sample_versions import a_version

from corpus_guard.domain import Severity
from corpus_guard.models import Models
from corpus_guard.screening.check import Check
from corpus_guard.screening.policy import load_policy
from corpus_guard.screening.registry import CHECKS
from corpus_guard.settings import Settings

TEXTS = {
    "family emoji": "We went to the coast with the whole family 👨‍👩‍👧‍👦 and the dog 🐕‍🦺 came along.",
    "skin tone and profession": "Our 👩🏽‍💻 and 👨🏿‍🚒 colleagues answered within the hour, thanks 🙏🏼!",
    "heart on fire": "The new release is out ❤️‍🔥 and it is twice as fast ✔️.",
    "flag of Scotland": "The office in Edinburgh 🏴󠁧󠁢󠁳󠁣󠁴󠁿 opens on Monday.",
    "pirate and rainbow flags": "Two flags were flown: 🏴‍☠️ on the old boat and 🏳️‍🌈 on the new one.",
    "keycaps": "Press 1️⃣ for English, 2️⃣ for Welsh and #️⃣ to hear this again.",
    "Persian joiners": "می‌خواهم کتاب‌های تازه را بخوانم و نمی‌دانم کجا آن‌ها را پیدا می‌کنم.",
    "Persian with English": "نرم‌افزار جدید (software) را نصب کرده‌ایم و به‌زودی راه‌اندازی می‌شود.",
    "Urdu": "یہ کتاب بہت اچھی ہے اور میں اسے دوبارہ پڑھنا چاہتا ہوں۔",
    "Kurdish": "دەتوانین لە کتێبخانە‌کە چاومان پێ‌ بکەوێت.",
    "Hindi joiner": "क्‍षमा कीजिए, कार्यालय आज बंद है और कल सुबह खुलेगा।",
    "Hindi non-joiner": "उद्‌घाटन के बाद सभी लोग घर चले गए।",
    "Bengali": "র‍্যাব ও র‍্যালি শব্দ দুটি এভাবে লেখা হয়।",
    "Malayalam": "അവന്‍ വീട്ടില്‍ ഇല്ല, നാളെ വരും.",
    "Sinhala": "ශ්‍රී ලංකාව ඉන්දියානු සාගරයේ පිහිටි දිවයිනකි.",
    "Kannada": "ರ‍್ಯಾಂಕ್ ಪಡೆದ ವಿದ್ಯಾರ್ಥಿಗಳಿಗೆ ಬಹುಮಾನ ನೀಡಲಾಯಿತು.",
    "Tamil": "துறைமுக அலுவலகம் காலை ஏழு மணிக்குத் திறக்கிறது.",
    "Thai with zero-width spaces": "สำนักงาน\u200bท่าเรือ\u200bเปิด\u200bเจ็ด\u200bโมง\u200bเช้า\u200bทุก\u200bวัน",
    "Khmer with zero-width spaces": "ការិយាល័យ\u200bកំពង់ផែ\u200bបើក\u200bនៅ\u200bម៉ោង\u200b៧\u200bព្រឹក។",
    "Myanmar": "ရုံးသည်\u200bနံနက်\u200bခုနစ်နာရီ\u200bဖွင့်သည်။",
    "soft hyphens": "Die Donau\u00addampf\u00adschiff\u00adfahrts\u00adgesell\u00adschaft hat neue Kapi\u00adtäne ein\u00adge\u00adstellt.",
    "soft hyphens in English": "An inter\u00adnation\u00adal com\u00admittee met to dis\u00adcuss hyphen\u00ada\u00adtion.",
    "byte order mark": "\ufeffThe harbour office opens at seven in the morning.",
    "right-to-left mark": "The word שלום\u200f (hello) and the sum 120\u200e ₪ stand in one line.",
    "Arabic with marks": "\u200fافتح القائمة ثم اختر\u200e Settings\u200f ثم احفظ.",
    "isolates": "\u2068Ali\u2069 sent \u20683\u2069 files to \u2068شركة\u2069 this morning.",
    "Hebrew with points": "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ.",
    "Vietnamese, decomposed": "Tie\u0302\u0301ng Vie\u0323\u0302t co\u0301 nhie\u0302\u0300u da\u0302\u0301u thanh.",
    "Greek in formulas": "The angle α grows with μ, so sin α ≈ α for small α; NFκB and TGFβ were measured in μg.",
    "word joiners": "See section\u00a04\u2060.2 of the handbook\u202f: 25\u202f000\u00a0km in all.",
    "breaks in long names": "Call corpus_\u200bguard.\u200bscreening.\u200bregistry with the name of the policy.",
    "Mongolian separator": "ᠬᠦᠮᠦᠨ ᠪᠦᠷ ᠲᠥᠷᠥᠵᠦ ᠮᠡᠨᠳᠡᠯᠡᠬᠦ ᠡᠷᠬᠡ ᠴᠢᠯᠥᠭᠡ ᠲᠡᠢ᠃",
    "ideographic variants": "葛󠄀城市と辻󠄁さんは別の字体を使います。",
    "Russian with abbreviations": "IT-отдел прислал PDFку и две SMSки по поводу USB-кабеля.",
}


@pytest.fixture(scope="module", params=["unicode", "typos"])
def check(request: pytest.FixtureRequest) -> Check:
    params, build = CHECKS[request.param]
    return build(params.model_validate(load_policy(Settings().policy_file).checks[request.param]), Models(Settings()))


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_is_said_at_low_or_above(check: Check, text: str) -> None:
    found = [one for _, one in check.run([a_version(TEXTS[text])], None)]

    assert [one.code for one in found if one.severity.rank >= Severity.LOW.rank] == []
