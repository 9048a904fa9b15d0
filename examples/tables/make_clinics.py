"""Three made-up clinics with tables as people have them: `python examples/tables/make_clinics.py FOLDER` writes them.

Categories, dates, ids, missing values in several spellings, columns of very different scales, an empty column,
semicolons, decimal commas and an old encoding at one clinic. `examples/tables/clinics` holds them; nobody is real.
"""

import csv
import io
import math
import random
import sys
from datetime import date, timedelta
from pathlib import Path

COLUMNS = (
    *("patient", "admitted", "age", "sex", "smoker", "pressure", "platelets", "sugar", "insured", "ward", "remark"),
    "diagnosis",
)
REMARKS = ("", "came with a friend", "phone call", "second visit", "referred by Dr Kühn", "from abroad", "no remark")


def patient(number: int, clinic: str, shift: float, random: random.Random) -> dict[str, str]:
    """One patient. Age, pressure, sugar and smoking make ill; how much of each differs a little between clinics."""
    age = random.gauss(58 + 6 * shift, 13)
    smoker = random.choices(("never", "former", "current"), (5, 3, 2))[0]
    pressure = random.gauss(128 + 5 * shift, 17)
    sugar = random.gauss(5.6, 1.1)
    risk = (age - 58) / 13 + (1 + shift) * (pressure - 128) / 17 + (1 - shift) * (sugar - 5.6) / 1.1
    risk += {"never": -0.7, "former": 0.2, "current": 1.6}[smoker]
    ill = random.random() < 1 / (1 + math.exp(-2 * risk))
    day = date(2023, 1, 9) + timedelta(days=random.randrange(700))
    return {
        "patient": f"{clinic[0].upper()}{number:05}",
        "admitted": day.isoformat(),
        "age": f"{age:.0f}",
        "sex": random.choice(("f", "m", "F", "M")),
        "smoker": smoker if random.random() > 0.1 else random.choice(("", "NA", "?")),
        "pressure": f"{pressure:.0f}" if random.random() > 0.12 else random.choice(("", "-", "n/a")),
        "platelets": f"{1000 * round(random.gauss(250, 60))}",
        "sugar": f"{sugar:.1f}" if random.random() > 0.06 else "",
        "insured": random.choices(("yes", "no"), (4, 1))[0],
        "ward": "2",
        "remark": f"{random.choice(REMARKS)} {random.randrange(9999)}" if random.random() < 0.7 else "",
        "diagnosis": "ill" if ill else "well",
    }


def written(rows: list[dict[str, str]], columns: tuple[str, ...], divider: str = ",") -> str:
    """Return patients as a csv file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, delimiter=divider, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_clinics(folder: Path) -> None:
    """Write the tables of three clinics."""
    folder.mkdir(parents=True, exist_ok=True)
    clinics = {
        name: [patient(number, name, shift, random.Random(f"{name} {number}")) for number in range(1, count + 1)]
        for name, shift, count in (("north", 0.0, 160), ("south", 0.4, 120), ("east", -0.4, 90))
    }
    (folder / "north.csv").write_text(written(clinics["north"], COLUMNS), encoding="utf-8")
    for row in clinics["south"]:  # where a comma is the decimal sign, and the day comes first
        year, month, day = row["admitted"].split("-")
        row |= {"admitted": f"{day}.{month}.{year}", "sugar": row["sugar"].replace(".", ",")}
        row["insured"] = {"yes": "Y", "no": "N"}[row["insured"]]
    (folder / "south.csv").write_text(written(clinics["south"], COLUMNS, ";"), encoding="cp1252")
    for row in clinics["east"]:  # where nobody measures platelets, and columns stand in another order
        row["platelets"] = ""
    (folder / "east.csv").write_text(written(clinics["east"], (*COLUMNS[2:], *COLUMNS[:2])), encoding="utf-8-sig")


if __name__ == "__main__":
    write_clinics(Path(sys.argv[1]))
