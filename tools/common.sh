# shellcheck shell=bash
# common.sh - what the commands in this folder share. Sourced, not run.
#
# Packages   need_packages PART...             all that these parts need is there, or we say so
# Builds     set_up_build DIR COMPILER OPT...  a build directory, made again only if it would differ
#            build_name COMPILER WORD...       what such a directory is called under build/
# Running    fixed_addresses COMMAND...        as a program with a sanitizer wants it

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
os_release=${OS_RELEASE:-/etc/os-release}  # another file shows what another distribution would see

# Debian's own, whatever comes first on PATH: its modules are the ones the packages install.
export python=/usr/bin/python3

may_install=yes  # the commands' --no-install turns it off
left_out=        # packages that are not there and not needed; set by need_packages
not_installed=   # those among them that it would have installed
why_not=         # one sentence: why something is still missing
tried=no         # whether apt-get ran, so that nobody is told to try the same again

say() { printf '%s\n' "$*"; }

die() {
  say "$@" >&2
  exit 1
}

# Prints the comment that a command starts with.
usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

# --- packages -----------------------------------------------------------------------------------

# The compiler is asked instead of the file system, so that anything counts that it would find.
preprocesses() { g++ -std=c++20 -E -x c++ -; }
links() { printf 'int main() {}\n' | "$1" -x c++ - "${@:2}" -o /dev/null; }

has_header() { printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | preprocesses; }

# Debian 12 also has Boost 1.74, which is too old for us and excludes 1.81.
has_boost() {
  printf '#include <boost/version.hpp>\n#if BOOST_VERSION < 108100\n#error\n#endif\n' |
    preprocesses && has_header "boost/$1"
}

has_module() {
  "$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(sys.argv[1]))' "$1"
}

# Where lib/device/cuda/meson.build looks, too. Debian 12's own is too old.
has_toolkit() {
  local root
  for root in "${CUDA_PATH:-${CUDA_HOME:-/usr/local/cuda}}" /usr/local/cuda /usr; do
    if "$root/bin/nvcc" --version | grep -Eq 'release (1[2-9]|[2-9][0-9])\.'; then return; fi
  done
  return 1
}

has_sanitizers() { links "$1" -fsanitize=address,undefined && links "$1" -fsanitize=thread; }

present() {
  local name=${1#*:}
  case ${1%%:*} in
    command) command -v "$name" ;;
    header) has_header "$name" ;;
    boost) has_boost "$name" ;;
    library) links g++ "-l$name" ;;
    toolkit) has_toolkit ;;
    python) has_module "$name" ;;
    sanitizers) has_sanitizers "$name" ;;
  esac </dev/null >/dev/null 2>&1
}

# missing NEED PART...: the rows of the table that are wanted and not there.
missing() {
  local wanted=$1 part need package check what
  shift
  while read -r part need package check what; do
    if [[ $need == "$wanted" && " $* " == *" $part "* ]] && ! present "$check"; then
      say "$package $check $what"
    fi
  done < <(sed '/^#/d' "$top/tools/packages")
}

names() { printf '%s\n' "$@" | cut -d ' ' -f 1 | tr '\n' ' ' | sed 's/ $//'; }

os_value() { sed -n "s/^$1=//p" "$os_release" 2>/dev/null | tr -d '"'; }

os_name() {
  local name
  name=$(os_value PRETTY_NAME || true)
  say "${name:-a system without a name}"
}

is_debian() {
  [[ " $(os_value ID) $(os_value ID_LIKE) " == *" debian "* ]] && command -v apt-get >/dev/null
}

# Asks for a password only where somebody can type one.
as_root() {
  if [[ $EUID -eq 0 ]]; then
    "$@"
  elif [[ -t 0 ]]; then
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

can_install() {
  if [[ $may_install == no ]]; then
    why_not="Nothing was installed, as asked."
  elif ! is_debian; then
    why_not="This is $(os_name), and packages are installed on Debian, or what is made of it, only."
  elif [[ $EUID -ne 0 ]] && ! { command -v sudo >/dev/null && as_root true 2>/dev/null; }; then
    why_not="Installing needs root, and there is no way to it through sudo."
  else
    return 0
  fi
  return 1
}

# Another release may lack a name: better to know before the first package than half-way.
apt_knows() { apt-cache show "$1" >/dev/null 2>&1; }

# --no-remove: what is here was put here by somebody, and is not ours to take away.
apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq --yes --no-install-recommends \
    --no-remove -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

# install_packages "REQUIRED..." "OPTIONAL...": an optional one that fails takes nothing with it.
install_packages() {
  local package
  tried=yes
  why_not="These were installed and are still not found."
  apt_get update || say "The package lists stay as they are: apt-get could not update them."
  for package in $1; do
    if ! apt_knows "$package"; then
      why_not="This is $(os_name), which has no package $package."
      return
    fi
  done
  # shellcheck disable=SC2086  # a list of names, one word each
  if [[ -n $1 ]] && ! apt_get install $1; then
    why_not="apt-get could not install everything."
    return
  fi
  for package in $2; do
    if apt_knows "$package"; then apt_get install "$package" || true; fi
  done
}

# stop_for "OPTIONAL..." ROW...: says what is missing and ends the command.
stop_for() {
  local optional=$1 package check what
  shift
  say "$why_not"
  say "What is missing, with the package that holds it in Debian 12:"
  while read -r package check what; do
    say "  ${check/:/ } is in $package, needed for $what"
  done < <(printf '%s\n' "$@")
  if [[ $tried == no ]] && is_debian; then
    say "As root, this installs it:"
    say "  apt-get update && apt-get install --yes --no-install-recommends $(names "$@") $optional"
  fi
  exit 1
} >&2

# The rows "package check what" of everything that is not there and not needed either.
tell_left_out() {
  local package what
  while read -r package _ what; do
    say "Left out: $package is not here; without it there is no $what."
  done < <(printf '%s\n' "$@")
}

# need_packages PART...: returns if everything required is there; apt-get runs only if not.
need_packages() {
  local -a required optional
  mapfile -t required < <(missing required "$@")
  mapfile -t optional < <(missing optional "$@")
  if ((${#required[@]} + ${#optional[@]} > 0)) && can_install; then
    say "Installing what is missing: $(names "${required[@]}" "${optional[@]}")"
    install_packages "$(names "${required[@]}")" "$(names "${optional[@]}")"
    mapfile -t required < <(missing required "$@")
    mapfile -t optional < <(missing optional "$@")
  fi
  ((${#required[@]} == 0)) || stop_for "$(names "${optional[@]}")" "${required[@]}"
  not_installed=$(names "${optional[@]}")
  mapfile -t -O "${#optional[@]}" optional < <(missing manual "$@")
  ((${#optional[@]} == 0)) || tell_left_out "${optional[@]}"
  left_out=$(names "${optional[@]}")
}

# --- builds -------------------------------------------------------------------------------------

# build_name g++ debug address,undefined -> gxx-debug-address-undefined; empty words do not count
build_name() {
  local word name=${1##*/}
  for word in "${@:2}"; do name+=${word:+-${word#-D}}; done
  name=${name//+/x}
  say "${name//[^A-Za-z0-9.-]/-}"
}

# Meson looks for optional parts and at CXXFLAGS only when it sets up, and would not notice a new compiler either.
# Warnings are errors here, unless -Dwerror=false is among the options.
set_up_build() {
  local dir=$1 compiler=$2
  local with
  # shellcheck disable=SC2086 # in front of it there may be ccache
  with="${*:2} $($compiler -dumpfullversion -dumpversion); flags: ${CXXFLAGS-} ${LDFLAGS-}"
  with+="; CUDA: ${CUDA_PATH:-${CUDA_HOME-}}; without: $left_out"
  if [[ -e $dir/build.ninja && $(cat "$dir/set-up-with" 2>/dev/null) == "$with" ]]; then
    return
  fi
  rm -rf "$dir"
  CXX=$compiler meson setup "$dir" "$top" -Dwerror=true "${@:3}" || return
  say "$with" >"$dir/set-up-with"
}

# --- running ------------------------------------------------------------------------------------

# The shadow memory of a sanitizer needs a place that a kernel with more random address bits may
# take. Without randomisation it is always free; where that is refused, the usual run has to do.
fixed_addresses() { if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi; }
