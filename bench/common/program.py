"""Where Paceline's programs are, and how they are built."""

import os
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RELEASE = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target") / "release"
DEFAULT = RELEASE / "paceline"


class Failed(Exception):
    """A configuration that gave no figure, with the reason in a line."""


def build(path, say):
    """The binary to measure, built when it is the default one and missing."""
    path = Path(path) if path else DEFAULT
    if not path.exists() and path == DEFAULT:
        say("building target/release/paceline (cargo build --release)")
        subprocess.run(["cargo", "build", "--release"], cwd=REPOSITORY, check=False)
    if not path.exists():
        raise Failed(f"{path} does not exist; build it or give --paceline PATH")
    return path


def example(package, name, say):
    """The release build of an example program of a crate, built (again) by cargo."""
    line = ["cargo", "build", "--release", "--quiet", "-p", package, "--example", name]
    say("building: " + " ".join(line))
    built = subprocess.run(line, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    path = RELEASE / "examples" / name
    if built.returncode != 0 or not path.exists():
        said = [text for text in built.stderr.splitlines() if text.strip()]
        raise Failed(f"cargo could not build the example {name}: {said[0] if said else 'no message'}")
    return path
