"""Pairs of sentences, and whether they agree, conflict or are about different things."""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.claims.statements import read_statements
from corpus_guard.claims.text_comparison import compare_texts

PAIRS: Sequence[tuple[str, str, str]] = (
    # --- documents that speak of themselves, numbers as subjects
    (
        "unrelated",
        "In this document, we will cover the activities from May 2019 to August 2019.",
        "In this document, we will cover the activities from May to June 2021.",
    ),
    (
        "conflict",
        "This manual covers every OX-12 sensor; calibrate it every 36 months.",
        "This manual covers every OX-12 sensor; calibrate it every 6 months.",
    ),
    ("conflict", "According to this manual the warranty lasts 24 months.", "The warranty lasts 12 months."),
    (
        "unrelated",
        "Portions of 81050 are also located in Orlen County.",
        "Portions of 99301 are also located in Marl County.",
    ),
    # --- weekdays
    ("conflict", "The filter beds are cleaned on Mondays.", "The filter beds are cleaned on Tuesdays and Fridays."),
    ("agree", "The filter beds are cleaned every Monday.", "The filter beds are cleaned on Mondays."),
    ("unrelated", "The filter beds are cleaned on Mondays.", "The filter beds are cleaned on Mondays and Fridays."),
    ("unrelated", "The filter beds were cleaned on Monday.", "The filter beds were cleaned on Friday."),
    ("unrelated", "On Sundays the pool closes at 6 pm.", "On Mondays the pool closes at 10 pm."),
    ("conflict", "On Mondays the pool closes at 6 pm.", "On Mondays the pool closes at 10 pm."),
    (
        "conflict",
        "Maintenance takes place on the last Sunday of each month.",
        "Maintenance takes place on the first Sunday of the month.",
    ),
    # --- the issue's
    (
        "conflict",
        "The OX-12 sensor must be calibrated every 36 months.",
        "The OX-12 sensor must be calibrated every 6 months.",
    ),
    (
        "conflict",
        "For the OX-12 oxygen sensor the recommended calibration interval is 36 months.",
        "Calibrate the OX-12 oxygen sensor every six months.",
    ),
    ("conflict", "Refunds are paid within 28 days of the return.", "Refunds are paid within 180 days of the return."),
    ("conflict", "The lanyard may be used outdoors in winter.", "The lanyard may not be used outdoors in winter."),
    (
        "conflict",
        "The supply voltage of the OX-12 is 12 V and its housing is made of titanium.",
        "The supply voltage of the OX-12 is 24 V and its housing is made of titanium.",
    ),
    ("agree", "The sensor must be calibrated every 6 months.", "The sensor must be calibrated twice a year."),
    ("agree", "The anchor holds 95 kN.", "The anchor holds ninety-five kilonewtons."),
    ("agree", "The anchor holds 95,000 N.", "The anchor holds 95 kN."),
    # --- seasons
    ("unrelated", "The season of 2012-13 cost members 40 euros.", "The season of 2013-14 cost members 50 euros."),
    ("conflict", "A card for the 2012-13 season costs 40 euros.", "A card for the 2012/13 season costs 50 euros."),
    # --- quantities
    (
        "conflict",
        "The maximum deployment depth of the OX-12 is 1200 metres.",
        "The maximum deployment depth of the OX-12 is 300 m.",
    ),
    ("agree", "Store the vaccine at 20 °C.", "Store the vaccine at 68 °F."),
    ("conflict", "Store the vaccine at 2 to 8 °C.", "Store the vaccine at 20 to 25 °C."),
    ("unrelated", "Store the vaccine at 2 to 8 °C.", "Store the vaccine at 5 °C."),
    ("conflict", "The bridge carries at least 40 tonnes.", "The bridge carries at least 60 tonnes."),
    ("unrelated", "The bridge carries at least 40 tonnes.", "The bridge carries 60 tonnes."),
    ("conflict", "The bridge carries at most 40 tonnes.", "The bridge carries 60 tonnes."),
    ("agree", "The train runs at 60 mph.", "The train runs at 97 km/h."),
    ("agree", "The tower is about 100 m tall.", "The tower is 103 m tall."),
    ("conflict", "The tower is 100 m tall.", "The tower is 130 m tall."),
    ("conflict", "The drive holds 512 GB of data.", "The drive holds 2 TB of data."),
    ("conflict", "The pump delivers 95 l/min at 3 bar.", "The pump delivers 95 l/min at 5 bar."),
    # --- durations, dates, counts, money, percentages
    ("agree", "The warranty lasts 12 months.", "The warranty lasts one year."),
    ("agree", "Returns are accepted for 180 days.", "Returns are accepted for 6 months."),
    ("conflict", "The password expires after 90 days.", "The password expires after 365 days."),
    ("conflict", "The treaty was signed on 12 March 1957.", "The treaty was signed on 25 March 1957."),
    ("unrelated", "The treaty was signed in 1957.", "The treaty was signed on 25 March 1957."),
    ("agree", "The office opens at 2:30 pm.", "The office opens at 14:30."),
    ("conflict", "The committee has 12 members.", "The committee has fifteen members."),
    ("conflict", "The annual fee is €50.", "The annual fee is 80 EUR."),
    ("conflict", "The annual fee is €50.", "The annual fee is $50."),
    ("unrelated", "The annual fee is €50.", "The annual fee is $55."),
    ("unrelated", "The annual fee is $50.", "The annual fee is A$50."),
    # --- versions from which something holds
    ("conflict", "The client needs Python 3.9 and later.", "The client needs Python 2.7 or newer."),
    ("agree", "The client needs Python 3.9 and later.", "The client needs Python from 3.9 on."),
    ("unrelated", "The client runs on release 9 and later.", "The client runs on release 11."),
    ("conflict", "The client runs from release 9 on.", "The client runs from release 6 on."),
    # --- the order of steps
    ("conflict", "Rinse the flask before adding the acid.", "Rinse the flask after adding the acid."),
    ("conflict", "Rinse the flask before adding the acid.", "Add the acid before rinsing the flask."),
    ("unrelated", "Rinse the flask before adding the acid.", "After rinsing the flask, add the acid."),
    ("unrelated", "Rinse the flask before adding the acid.", "Rinse the beaker after adding the salt."),
    ("unrelated", "Withdrawals after age 59 are free.", "Withdrawals before age 59 cost 10 %."),
    (
        "unrelated",
        "If you claim benefits after the full age, they rise.",
        "If you claim benefits before the full age, they fall.",
    ),
    ("unrelated", "Close the valve before noon.", "Close the valve after lunch."),
    # --- two kinds of one name
    ("unrelated", "The Brandt alkali wash takes 30 minutes.", "The Brandt acid wash takes 45 minutes."),
    ("conflict", "Income tax is 19 percent.", "Income tax is 42 %."),
    (
        "conflict",
        "The library requires version 3.11 of the runtime.",
        "The library requires version 3.8 of the runtime.",
    ),
    ("unrelated", "The population was 4,476 at the 2000 census.", "The population was 5,359 at the 2010 census."),
    ("conflict", "The population was 4,476 at the 2010 census.", "The population was 5,359 at the 2010 census."),
    # --- contacts
    ("conflict", "Call support at +44 20 7946 0958 for help.", "Call support at +44 20 7946 0111 for help."),
    (
        "conflict",
        "Invoices are paid to DE89 3704 0044 0532 0130 00.",
        "Invoices are paid to GB29 NWBK 6016 1331 9268 19.",
    ),
    ("conflict", "Report phishing to security@example.com.", "Report phishing to security@example.org."),
    ("conflict", "Updates are downloaded from updates.example.com.", "Updates are downloaded from mirror.example.net."),
    ("unrelated", "Updates are downloaded from updates.example.com.", "Updates are downloaded from example.com."),
    # --- negation
    ("conflict", "Smoking is allowed in the hall.", "Smoking is forbidden in the hall."),
    ("agree", "Smoking is not allowed in the hall.", "Smoking is prohibited in the hall."),
    (
        "conflict",
        "The adapter is compatible with the older charger.",
        "The adapter is incompatible with the older charger.",
    ),
    ("conflict", "Backups are encrypted at rest.", "Backups are never encrypted at rest."),
    (
        "conflict",
        "Dogs travel free of charge if they are on a leash.",
        "Dogs do not travel free of charge if they are on a leash.",
    ),
    ("conflict", "The valve must be open before the start.", "The valve must not be open before the start."),
    ("agree", "The museum opens at ten on Sundays.", "The museum does not open before ten on Sundays."),
    ("unrelated", "The cream must not be stored at 5 °C.", "The cream must be stored at 20 °C."),
    ("agree", "Calibrate the sensor every 6 months, not every 36 months.", "Calibrate the sensor every 6 months."),
    # --- names
    ("conflict", "The chief executive of Acme is Alice Brown.", "The chief executive of Acme is Robert Stone."),
    ("conflict", "The telescope was invented by Hans Lippershey.", "The telescope was invented by Zacharias Janssen."),
    ("unrelated", "Alice Brown is an engineer at Acme.", "Robert Stone is an engineer at Acme."),
    ("conflict", "Sample Corp is based in New York.", "Sample Corp is based in San Diego."),
    ("unrelated", "Acme Corp is based in Paris.", "Globex Inc is based in Paris."),
    # --- other subjects
    ("unrelated", "The OX-12 must be calibrated every 36 months.", "The OX-14 must be calibrated every 6 months."),
    ("unrelated", "Paris has 5 airports.", "London has 3 airports."),
    ("unrelated", "The red pump runs for 5 hours.", "The blue pump runs for 3 hours."),
    ("unrelated", "The battery lasts 8 hours.", "The battery charges in 2 hours."),
    (
        "unrelated",
        "The former calibration interval of the sensor was 6 months.",
        "The calibration interval of the sensor is 36 months.",
    ),
    ("unrelated", "Is the sensor calibrated every 36 months?", "The sensor is calibrated every 6 months."),
    ("unrelated", "The hotel has 20 rooms.", "The hotel has 3 restaurants."),
    ("unrelated", "Chapter 5 describes the installation.", "Chapter 7 describes the installation."),
    ("unrelated", "The river is 400 km long.", "The harbour closes at 18:00."),
    # --- clauses, times and referents
    ("conflict", "The lid is made of steel and must not be washed.", "The lid may be washed, so save your time."),
    ("conflict", "The lid opens at 90 °C.", "As a cook I can tell you that the lid opens at 40 °C."),
    ("unrelated", "The fee is 40 EUR.", "In 2014 the fee was 25 EUR."),
    ("unrelated", "An appeal must be answered within 30 days.", "My appeal was answered after 180 days."),
    ("unrelated", "The interval is 6 months.", "In 2025 the interval was 36 months."),
    ("conflict", "The interval is 6 months.", "The interval was changed to 36 months."),
    ("conflict", "The pump is heavy. It weighs 20 kg.", "The pump weighs 35 kg."),
    ("unrelated", "The pump is heavy. It weighs 20 kg.", "The valve weighs 35 kg."),
    ("agree", "A clot forms in one leg.", "A clot usually forms in one leg, not in both."),
    ("conflict", "The caretaker of Elmhof is Hanna Brandt.", "The caretaker of Elmhof is Mr. Paul Wenzel."),
    ("conflict", "Left-over days expire on 31 March.", "Left-over days do not expire before 31 December."),
    ("unrelated", "A ticket costs 8.60 euros.", "In 2011 you paid 5.20 euros for a ticket."),
    # --- who did it, and what only belongs to the thing
    ("conflict", "The museum was founded in 1894 by Edvard Lunde.", "The founder of the museum was Henrik Moberg."),
    (
        "conflict",
        "The telescope is operated by the Institute of Astronomy in Turvik.",
        "The telescope is operated by the University of Lorne.",
    ),
    ("conflict", "This wheat is resistant to yellow rust.", "This wheat is susceptible to yellow rust."),
    ("unrelated", "The dam was completed in 1958.", "The power station of the dam was completed in 1974."),
    (
        "unrelated",
        "The choir is directed by Lucia Ferrand.",
        "The children's choir of Maren is directed by Oskar Brandt.",
    ),
    ("unrelated", "The runway is 1,180 metres long.", "The second runway is 2,400 metres long."),
    ("unrelated", "The runway is 1,180 metres long.", "The runway was planned to be 2,400 metres long."),
    ("unrelated", "Contains 12 % acid.", "The old remover contained 35 % acid."),
    ("unrelated", "Do not push it to the harbour.", "And then push them to the harbour."),
    ("unrelated", "Defaults to 100.", "The number of items, defaults to 200."),
)


def outcome_of(one: str, other: str) -> str:
    """Return the first outcome of two texts; a conflict comes before an agreement."""
    comparisons = compare_texts(read_statements(one).statements, read_statements(other).statements).comparisons
    return comparisons[0].outcome.value if comparisons else "unrelated"
