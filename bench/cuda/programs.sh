# shellcheck shell=bash disable=SC2034
# Sourced by what runs programs on a GPU. PYTHON: one with PyTorch [python3].
python=${PYTHON:-python3}
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}

# The folders of libcudart, libcublasLt and libnccl: the toolkit's, and those of the packages that PyTorch brings along. They are given to the
# compiled programs alone: PyTorch finds its own.
cuda_libraries() {
  local folder
  for folder in "$(dirname "$nvcc")"/../lib64 /usr/local/cuda*/lib64 \
    $("$python" -c 'import glob, sysconfig; print(*glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib"))' 2>/dev/null); do
    { compgen -G "$folder/libcu*.so*" || compgen -G "$folder/libnccl.so*"; } >/dev/null && printf '%s:' "$folder"
  done
  printf '%s' "${LD_LIBRARY_PATH:-}"
}
libraries=$(cuda_libraries)
compiled=(env "LD_LIBRARY_PATH=$libraries")

# sm_90a and the like of the card that is here.
architecture() {
  local number
  number=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
  case $number in 9[0-9]* | 1[0-9][0-9]) number+=a ;; esac
  echo "$number"
}
