# To be sourced before ranks are started, all on one machine, however few its cores.
# Open MPI asks root, and who starts more ranks than there are cores, whether that is meant.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# With more ranks than cores it would yield at each look for a message, and where something else keeps the cores busy, wait each time for
# a slice of theirs: a second became five minutes. The library's own waits give way.
export OMPI_MCA_mpi_yield_when_idle=0
