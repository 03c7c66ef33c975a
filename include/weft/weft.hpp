// Weft on the CPU, in one include.
#pragma once

#include <weft/backend/cpu.hpp>
#include <weft/comm/self.hpp>
#include <weft/comm/threads.hpp>
#include <weft/comm/traced.hpp>
#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/attention.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/create.hpp>
#include <weft/op/cross_entropy.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/rms_norm.hpp>
#include <weft/op/rope.hpp>
#include <weft/op/softmax.hpp>
#include <weft/op/swiglu.hpp>
#include <weft/op/view.hpp>
#include <weft/nn/llama.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/optim/adamw.hpp>
#include <weft/optim/schedule.hpp>
#include <weft/parallel/parameter_store.hpp>
