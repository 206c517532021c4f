"""The browser of the browser tests: where it is, and how `make test` comes by one.

Run as a program it installs a Chromium where none is found: Debian's package when that can be
had, else Playwright's own build. It asks first, unless CI is set. Without one it says so and ends
well: the browser tests are then skipped with a reason, the others run.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MACOS = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
DEBIAN = ("chromium", "fonts-noto-core")


def installed_chromium() -> str | None:
    """The path of a Chromium or Chrome: the system's, else the one Playwright keeps."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    if MACOS.exists():
        return str(MACOS)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def debian_has_it() -> bool:
    """Whether apt can bring Chromium itself: Ubuntu's package only points to a snap."""
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    os_release = Path("/etc/os-release")
    return os_release.exists() and "ID=debian" in os_release.read_text().splitlines()


def agreed(commands: list[list[str]]) -> bool:
    print("The browser tests need Chromium, and none was found. This would install one:")
    for command in commands:
        print("   ", " ".join(command))
    if os.environ.get("CI"):
        return True
    if not sys.stdin.isatty():
        print("Nobody can be asked here, so nothing is installed; with CI=1 it is done unasked.")
        return False
    return input("Install it? [y/N] ").strip().lower() in ("y", "yes")


def main() -> int:
    if found := installed_chromium():
        print(f"Browser tests run in {found}")
        return 0
    if debian_has_it():
        commands = [
            ["apt-get", "update"],
            ["apt-get", "install", "-y", "--no-install-recommends", *DEBIAN],
        ]
    else:
        commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if not agreed(commands):
        print("The browser tests will be skipped.")
        return 0
    for command in commands:
        if subprocess.run(command).returncode:
            print(f"{' '.join(command)} failed: install Chromium by hand and try again.")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
