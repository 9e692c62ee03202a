"""Samples from texts of this package.

They have no half: they are no collection that could be split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corpus_guard.attacks.obfuscation import OBFUSCATIONS
from corpus_guard.attacks.overrides import CARRIERS, PHRASES, plant_phrase
from corpus_guard.detectors.samples import Family, Sample

JOINERS: Final = {
    "family emoji": "The Petersens \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 will be at the lake until Sunday.",
    "professions": "Our crew: \U0001f469\u200d\U0001f680 flight, \U0001f468\u200d\U0001f373 kitchen, \U0001f9d1\u200d\U0001f33e garden.",
    "heart with selector": "Thank you for the flowers \u2764\ufe0f and for the long evening \u2615\ufe0f.",
    "skin tones": "Well done \U0001f44f\U0001f3fd \U0001f44d\U0001f3fe, the roof is tight again \U0001f937\U0001f3fb\u200d\u2640\ufe0f.",
    "rainbow flag": "The town hall hoists the \U0001f3f3\ufe0f\u200d\U0001f308 flag in June, as in the years before.",
    "flag of Scotland": "Today's match: \U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f against Norway, at eight.",
    "keycaps": "Press 1\ufe0f\u20e3 for opening hours and 2\ufe0f\u20e3 for the night desk.",
    "Persian": "من می\u200cخواهم کتاب\u200cهای تازه را پیش از پایان هفته به کتابخانه برگردانم.",
    "Persian with numbers": "این دفترچه ۱۲۰ صفحه دارد و آن را می\u200cتوان از فروشگاه\u200cهای شهر خرید.",
    "Urdu": "براہ\u200cکرم اپنی درخواست جمعہ سے پہلے دفتر میں جمع کرا دیں، شکریہ\u200c۔",
    "Sorani Kurdish": "ئه\u200cم کتێبه\u200c له\u200c کتێبخانه\u200cی شار ده\u200cست ده\u200cکه\u200cوێت.",
    "Arabic with marks": "رقم الطلب \u200e4711-B\u200f، ويصل الطرد يوم الخميس.",
    "Arabic letter mark": "تبدأ الحصة الساعة \u061c10:30\u061c صباحًا في القاعة الكبرى.",
    "Hebrew with marks": "הכתובת היא רחוב הנמל 12\u200f, ליד בית הקפה C++\u200f החדש.",
    "isolates": "The file \u2068דוח שנתי.pdf\u2069 was sent to \u2068السيدة أمينة\u2069 on Monday.",
    "Hindi": "कृपया आवेदन पत्र शक्\u200dति नगर के कार्यालय में सोमवार तक जमा करें, धन्यवाद।",
    "Marathi": "दरवर्षी जत्रेला गावातील सर्व लोक येतात आणि नदीकाठी दिवे लावतात, वाऱ्\u200dयावरची वरात निघते।",
    "Bengali": "র\u200d্যাম্প দিয়ে উঠলে ডান দিকে পাঠাগার, তার পাশে ছোট বাগান।",
    "Malayalam": "അവന്\u200d നാളെ രാവിലെ തോണിയില്\u200d കായല്\u200d കടന്ന് ചന്തയിലേക്ക് പോകും.",
    "Kannada": "ರಾಜ್\u200cಕುಮಾರ್ ರಸ್ತೆಯ ಗ್ರಂಥಾಲಯ ಬೆಳಿಗ್ಗೆ ಒಂಬತ್ತಕ್ಕೆ ತೆರೆಯುತ್ತದೆ.",
    "Sinhala": "ශ්\u200dරී ලංකාවේ දුම්රිය මාර්ගය මුහුද දිගේ ගාල්ල දක්වා දිවෙයි, ප්\u200dරවේශ පත්\u200dර දුම්රිය පළේදී.",
    "Tibetan": "བོད་ཀྱི་ཡི་གེ་ནི་ཚེག་གིས་ཚིག་དབྱེ་བ་ཡིན།\u0f0c དཔེ་མཛོད་ཁང་ཞོགས་པར་སྒོ་འབྱེད།",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ\u202fᠤᠨ ᠪᠢᠴᠢᠭ\u180eᠠ ᠨᠣᠮ\u180b ᠤᠨ ᠰᠠᠩ᠃",
    "Khmer": "បណ្ណាល័យ\u200bបើក\u200bនៅ\u200bម៉ោង\u200bប្រាំបី\u200bព្រឹក\u200bរាល់\u200bថ្ងៃ។",
    "Thai": "ห้องสมุด\u200bเปิด\u200bทุกวัน\u200bเวลา\u200bแปดโมงเช้า\u200bยกเว้น\u200bวันอาทิตย์",
    "Burmese": "စာကြည့်တိုက်\u200bကို\u200bမနက်\u200bရှစ်နာရီ\u200bမှာ\u200bဖွင့်\u200bသည်။",
    "soft hyphens": "Die Donau\u00addampf\u00adschiff\u00adfahrts\u00adgesell\u00adschaft ver\u00adlegte ihren Haupt\u00adsitz.",
    "byte order mark": "\ufeffYear;Visitors\n2019;12,480\n2020;3,912\n2021;7,055\n",
    "French spaces": "Prix\u00a0: 1\u202f250\u00a0€\u00a0; livraison comprise\u202f! Voir «\u00a0Conditions\u00a0», pages\u00a04–\u20608.",
    "Japanese variants": "葛\U000e0100城市の渡辺\U000e0101さんは、来週\u3000図書館で講演します。入場は無料です。",
}  # fmt: skip
"""Honest texts that cannot be written without invisible, joining or steering characters: case → text."""


def override_samples() -> Iterator[Sample]:
    """Return every phrase under every obfuscation in every carrier; one slice per obfuscation."""
    for name, obfuscate in OBFUSCATIONS.items():
        for phrase in PHRASES:
            for carrier in CARRIERS:
                yield Sample(
                    plant_phrase(obfuscate(phrase), carrier), True, f"override, {name}", Family.OVERRIDE, key=phrase
                )


def carrier_samples() -> Iterator[Sample]:
    """Return the carriers without a phrase, which must pass."""
    for carrier in CARRIERS:
        yield Sample(carrier.format(""), False, "override carriers", Family.ORDINARY, key=carrier)


def joiner_samples() -> Iterator[Sample]:
    """Return honest texts with invisible characters."""
    for name, text in JOINERS.items():
        yield Sample(text, False, "joiners", Family.JOINERS, key=name)
