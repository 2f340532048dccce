"""Compares replay.py's scores with the floor, which only rises.

    replay_floor.py SCORES FLOOR [--raise]

Exit status 1 if a score is below the floor, or if the floor itself is below what an earlier commit had.
"""

import json
import re
import subprocess
import sys

SERVICES = ("blob", "queue", "table", "dfs")


def read_scores(path):
    """The last column but two of each service's line: sessions and requests that agree in everything."""
    scores = {}
    for line in open(path, encoding="utf-8"):
        pairs = re.findall(r"(\d+)/(\d+)", line)
        name = line.split(" ", 1)[0]
        if name in SERVICES and len(pairs) == 6 and name not in scores:
            scores[name] = {"sessions": int(pairs[0][0]), "sessions_of": int(pairs[0][1]),
                            "requests": int(pairs[3][0]), "requests_of": int(pairs[3][1])}
    missing = set(SERVICES) - set(scores)
    if missing:
        sys.exit(f"no scores for {', '.join(sorted(missing))} in {path}")
    return scores


def lowered(path, floor):
    """What an earlier commit's floor has above this one's; nothing outside a git checkout."""
    try:
        commits = subprocess.run(["git", "log", "--format=%H", "-n", "50", "--", path], capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []
    found = []
    for commit in commits:
        old = subprocess.run(["git", "show", f"{commit}:./{path}"], capture_output=True, text=True).stdout
        if not old:
            continue
        for service, scores in json.loads(old).items():
            for kind, value in scores.items():
                if floor.get(service, {}).get(kind, 0) < value:
                    found.append(f"{service} {kind}: {floor.get(service, {}).get(kind, 0)}, but {value} in {commit[:12]}")
    return found


def main():
    scores_path, floor_path, *rest = sys.argv[1:]
    scores = read_scores(scores_path)
    try:
        floor = json.load(open(floor_path, encoding="utf-8"))
    except FileNotFoundError:
        floor = {}
    bad, better = [], False
    for service in SERVICES:
        for kind in ("sessions", "requests"):
            have, of, least = scores[service][kind], scores[service][kind + "_of"], floor.get(service, {}).get(kind, 0)
            print(f"{service:6} {kind:9} {have:5} of {of:5}  floor {least:5}")
            if have < least:
                bad.append(f"{service} {kind}: {have} is below the floor {least}")
            better |= have > least
            if rest == ["--raise"]:
                floor.setdefault(service, {})[kind] = max(have, least)
    if rest == ["--raise"]:
        with open(floor_path, "w", encoding="utf-8") as f:
            json.dump(floor, f, indent=2)
            f.write("\n")
    elif better:
        print("above the floor: run .ci/replay --raise and commit .ci/replay-floor.json")
    bad += lowered(floor_path, floor)
    if bad:
        sys.exit("\n".join(bad))


main()
