#!/usr/bin/env bash
# The laws over two hosts, two processes on each: hosts are two network namespaces with names of their own and a cable
# between them, so that what moves is TCP. Needs root, and Open MPI: Debian 12's MPICH hangs over TCP in MPI_Finalize of a
# program that does nothing else (UCX_TLS=tcp,self mpirun.mpich -n 4).
source "$WEFT_SOURCE_DIR/tests/mpi/common.sh"
skip() { echo "skipped: $*"; exit 77; }
[[ " ${implementations[*]} " == *" openmpi "* ]] || skip "Open MPI is not here"
command -v ip >/dev/null && command -v unshare >/dev/null || skip "ip and unshare are not here (Debian: iproute2)"
a=weft-a-$$ b=weft-b-$$
ip netns add $a 2>/dev/null || skip "no permission to make network namespaces"
trap 'ip netns del $a; ip netns del $b; rm -rf "$out"' EXIT
ip netns add $b
ip link add cable netns $a type veth peer name cable netns $b 2>/dev/null || skip "no permission to make a cable between namespaces"
for end in "$a cable 10.77.0.1" "$b cable 10.77.0.2"; do
  read -r host device address <<<"$end"
  ip -n "$host" addr add "$address/24" dev "$device"
  ip -n "$host" link set "$device" up
  ip -n "$host" link set lo up
done

# What takes the place of ssh: HOST COMMAND... runs in the host's namespace, under its name.
cat >"$out/agent" <<EOT
#!/usr/bin/env bash
while [ "\${1#-}" != "\$1" ]; do shift; done
case \$1 in 10.77.0.1) host=$a ;; *) host=$b ;; esac
shift
exec ip netns exec \$host unshare --uts bash -c "hostname \$host; \$*"
EOT
chmod +x "$out/agent"
on_a() { timeout 200 ip netns exec $a unshare --uts bash -c "hostname $a; exec \"\$@\"" on_a "$@"; }
export OMPI_MCA_plm_rsh_agent="$out/agent" OMPI_MCA_btl=tcp,self OMPI_MCA_pml=ob1 OMPI_MCA_btl_tcp_if_include=10.77.0.0/24
export OMPI_MCA_oob_tcp_if_include=10.77.0.0/24

tests=$WEFT_SOURCE_DIR/tests
cd "$tests" || exit 1
if [ "$(readlink -f "$(command -v mpicxx)")" = "$(readlink -f "$(command -v mpicxx.openmpi)")" ]; then  # the build has it
  program=("$WEFT_BINARY_DIR/tests/test_mpi" '--source-file=*/mpi/laws_test.cpp,*/mpi/operations_test.cpp')
else
  program=("$out/program")
  compile openmpi "$out/program" mpi/laws_test.cpp mpi/operations_test.cpp main.cpp
fi
compile openmpi "$out/failing" mpi/failing.cpp
hosts=(mpirun.openmpi --host 10.77.0.1:2,10.77.0.2:2 --map-by node)
sent() { ip netns exec $a cat /sys/class/net/cable/statistics/tx_bytes; }
before=$(sent)
on_a "${hosts[@]}" -n 4 bash check/over_mpi.sh --rank "${program[@]}" || fault "the laws over two hosts"
moved=$(($(sent) - before))
[ $moved -gt 100000000 ] || fault "$moved bytes moved over the cable: the hosts were not two"
on_a "${hosts[@]}" -n 4 "$out/failing" 4 buffers >"$out/stdout" 2>"$out/stderr" && fault "a failure on another host exits with 0"
grep -qF "rank 1 failed: the disk is full" "$out/stderr" || fault "a failure on another host says $(head -c 2000 "$out/stderr")"
echo "4 ranks on two hosts, $moved bytes from the first to the second"
[ $faults = 0 ]
