// What train_llama is where its ranks are threads; over_mpi/strategies.cpp says it for processes.
#include "settings.hpp"

train_llama::started_as train_llama::this_process() { return {"train_llama", "threads", "cpu", 0}; }
