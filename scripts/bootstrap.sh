# Makes the Python environment `.venv` from a lock file; sourced by `run` and `test`, which set
# $here. POSIX sh. Does nothing when the environment is up to date, so every start can call it.

venv="$here/.venv"
python="$venv/bin/python"

say() { printf '%s\n' "$*" >&2; }

die() {
    say "$@"
    exit 2
}

suitable() { # PYTHON: 3.11 to 3.14?
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null
}

find_python() { # prints the first suitable Python; one that can make environments goes first
    for name in ${HEADROOM_PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
        if command -v "$name" >/dev/null && suitable "$name" &&
            "$name" -c 'import ensurepip, venv' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    for name in ${HEADROOM_PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
        if command -v "$name" >/dev/null && suitable "$name"; then
            command -v "$name"
            return
        fi
    done
    return 1
}

have_uv() { command -v uv >/dev/null; }

as_root() { # runs a command as root, or says that it may not
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

apt_install() { # PACKAGE…: installs Debian packages where that is possible without a question
    command -v apt-get >/dev/null || return 1
    as_root true || return 1
    say "Installing the system packages $* …"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

make_venv() {
    base=$(find_python) || die "Headroom needs Python 3.11 to 3.14, and none was found in PATH." \
        "Debian 12 and 13 have one: apt-get install python3 python3-venv"
    if ! "$base" -c 'import ensurepip, venv' 2>/dev/null; then
        if have_uv; then
            uv venv -q --python "$base" "$venv" && return
        fi
        apt_install python3-venv || true
        "$base" -c 'import ensurepip, venv' 2>/dev/null ||
            die "$base cannot make an environment. Type: sudo apt-get install python3-venv"
    fi
    say "Making the Python environment with $base …"
    "$base" -m venv "$venv" || die "The environment $venv could not be made (see above)."
}

install_lock() { # LOCK
    say "Installing the packages of ${1##*/} (a minute or so, once) …"
    if have_uv && uv pip install -q --python "$python" --require-hashes -r "$1"; then
        return
    fi
    "$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip >/dev/null ||
        die "$venv has no pip. Remove that folder and start again."
    "$python" -m pip install -q --disable-pip-version-check --no-input --require-hashes -r "$1" ||
        die "The packages could not be installed (see above). Start again when that is solved."
}

has_pango() {
    "$python" - <<'END' 2>/dev/null
import ctypes
import ctypes.util
import sys

if sys.platform == "darwin":
    folders = ("", "/opt/homebrew/lib/", "/usr/local/lib/")
    names = [f"{folder}libpango-1.0.dylib" for folder in folders]
else:
    names = ["libpango-1.0.so.0"]
    for name in ("libpangoft2-1.0.so.0", "libharfbuzz-subset.so.0"):
        ctypes.CDLL(name)
for name in names:
    try:
        ctypes.CDLL(name)
        break
    except OSError:
        continue
else:
    sys.exit(1)
END
}

ensure_pango() { # the PDF library's text engine: installed where we may, else one line of advice
    has_pango && return
    if [ "$(uname)" = Darwin ]; then
        say "For PDFs, type once: brew install pango"
        return
    fi
    packages="libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0"
    # shellcheck disable=SC2086 # three words are meant
    apt_install $packages && has_pango && return
    say "For PDFs, type once: sudo apt-get install $packages"
}

bootstrap() { # LOCK: leaves $python ready
    lock="$here/$1"
    # The dev lock holds all of the other one, so it serves both.
    stamp="$1 $(cksum <"$lock")"
    if grep -qxF "$stamp" "$venv/.headroom-locks" 2>/dev/null && suitable "$python"; then
        ensure_pango
        return
    fi
    (
        if command -v flock >/dev/null; then # two first starts at once: the second one waits
            exec 9>"$here/.bootstrap.lock"
            flock 9
        fi
        if grep -qxF "$stamp" "$venv/.headroom-locks" 2>/dev/null && suitable "$python"; then
            exit 0
        fi
        if ! suitable "$python"; then
            rm -rf "$venv"
            make_venv
        fi
        install_lock "$lock"
        {
            printf '%s\n' "$stamp"
            if [ "$1" = requirements-dev.txt ]; then
                printf '%s\n' "requirements.txt $(cksum <"$here/requirements.txt")"
            fi
        } >"$venv/.headroom-locks"
    ) || exit $?
    ensure_pango
}
