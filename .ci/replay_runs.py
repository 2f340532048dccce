"""Copies recordings, and divides those that have two runs of one test.

    replay_runs.py RECORDINGS FOLDER

Files are links, but for the recordings below. Between their runs, which began minutes apart, the fixture of the test deleted its
container, and with it a blob in the archive; the recording lacks that. As one session the second run would replace the archived
blob, which the service refuses (https://github.com/rclone/rclone/issues/3982).
"""

import os
import re
import sys

TWO_RUNS = {
    "test_blob_storage_account.test_batch_set_standard_blob_tier_api.yaml",
    "test_blob_storage_account.test_batch_set_standard_blob_tier_api_with_non_askii_blob_name.yaml",
    "test_blob_storage_account.test_batch_set_three_blob_tier.yaml",
    "test_block_blob.test_create_blob_from_text_with_blob_tier_specified.yaml",
}


def runs(text):
    """The two runs of a recording of VCR.py: each begins with the same request, which it sends once."""
    head, *interactions = re.split(r"^(?=- request:)", text, flags=re.M)
    last, _, foot = interactions[-1].rpartition("version: 1")
    interactions[-1] = last

    def target(interaction):
        return re.search(r"^    uri: https://[^/]*(.*)$", interaction, re.M).group(1)

    again = [i for i, x in enumerate(interactions) if i and target(x) == target(interactions[0])
             and "method: PUT" in x]
    at = again[-1]
    return [head + "".join(part) + "version: 1" + foot for part in (interactions[:at], interactions[at:])]


def main():
    source, to = map(os.path.abspath, sys.argv[1:])
    divided = 0
    for folder, _, names in os.walk(source):
        target = os.path.join(to, os.path.relpath(folder, source))
        os.makedirs(target, exist_ok=True)
        for name in names:
            path = os.path.join(folder, name)
            if name not in TWO_RUNS:
                os.symlink(path, os.path.join(target, name))
                continue
            divided += 1
            for i, text in enumerate(runs(open(path, encoding="utf-8").read())):
                with open(os.path.join(target, f"{name.removesuffix('.yaml')}.run{i + 1}.yaml"), "w", encoding="utf-8") as f:
                    f.write(text)
    if divided != len(TWO_RUNS):
        sys.exit(f"{divided} of {len(TWO_RUNS)} recordings with two runs were found in {source}")


main()
