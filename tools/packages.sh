# shellcheck shell=bash
# shellcheck disable=SC2034  # the lists are used by those who source this
# The Debian and Ubuntu packages of this project, in one place. To be sourced; CONTRIBUTING.md says
# what each is for.

# Packages to build the commands.
build_packages=(
  build-essential cmake ninja-build pkg-config
  libdnnl-dev libeigen3-dev libyaml-cpp-dev libpcre2-dev libutf8proc-dev
  zlib1g-dev libarchive-dev libssl-dev libcurl4-openssl-dev libisal-dev libzstd-dev nlohmann-json3-dev libcli11-dev libfmt-dev
)
# Further packages for the tests.
test_packages=(
  libgtest-dev libgmock-dev librapidcheck-dev ccache mandoc shellcheck file
  ca-certificates unzip python3 python3-venv python3-pip python3-torch python3-numpy bindfs
  libopenmpi-dev openmpi-bin iproute2 slurmctld slurmd slurm-client munge pypy3
)
# Ubuntu has chromium only as a snap, which containers cannot run: there the tests of pages are skipped.
# shellcheck source=/dev/null
if [ "$(. /etc/os-release 2>/dev/null && echo "${ID:-}")" = debian ]; then
  test_packages+=(chromium chromium-driver python3-selenium)
fi
# Further packages for a wheel: for its script, and to list the symbols of programs.
wheel_packages=(python3 binutils)

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "packages are missing, and there is neither root nor sudo to install them: $*" >&2
    return 1
  fi
}

# install_packages NAME...: installs the missing ones; does nothing when there are none.
install_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null; then
    echo "not a Debian or Ubuntu system; going on as if these were there: $*" >&2
    return 0
  fi
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  echo "installing: ${missing[*]}" >&2
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
  as_root "${apt[@]}" update >&2
  as_root "${apt[@]}" install --no-install-recommends "${missing[@]}" >&2
}
