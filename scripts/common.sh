# Sourced by the other scripts: where the project is, and how to speak and to become root.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs a command as root: directly, or with sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo --preserve-env=DEBIAN_FRONTEND "$@"
  else
    fail "'$*' needs root, and there is no sudo. Run this script as root once."
  fi
}

# Open MPI refuses root and more ranks than cores unless told otherwise; ranks sleep while they wait, so binding them only hurts.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none  # the same since Open MPI 5
# A container without the ptrace permission cannot use the kernel's cross-memory attach; the notice about it is noise.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
