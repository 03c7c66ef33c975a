// Weft on the CPU, in one include.
#pragma once

#include <weft/core/requirements.hpp>  // before any standard header

#include <weft/autograd/backward.hpp>
#include <weft/autograd/checkpoint.hpp>
#include <weft/backend/cpu.hpp>
#include <weft/comm/single_rank.hpp>
#include <weft/comm/threads.hpp>
#include <weft/comm/traced.hpp>
#include <weft/io/print.hpp>
#include <weft/nn/gpt2.hpp>
#include <weft/nn/llama.hpp>
#include <weft/op/arithmetic.hpp>
#include <weft/op/attention.hpp>
#include <weft/op/concat.hpp>
#include <weft/op/contract.hpp>
#include <weft/op/convert.hpp>
#include <weft/op/create.hpp>
#include <weft/op/cross_entropy.hpp>
#include <weft/op/dropout.hpp>
#include <weft/op/elementwise.hpp>
#include <weft/op/embedding.hpp>
#include <weft/op/extremes.hpp>
#include <weft/op/formula.hpp>
#include <weft/op/layer_norm.hpp>
#include <weft/op/reduce.hpp>
#include <weft/op/ring.hpp>
#include <weft/op/rms_norm.hpp>
#include <weft/op/rope.hpp>
#include <weft/op/rowwise.hpp>
#include <weft/op/scalar.hpp>
#include <weft/op/select.hpp>
#include <weft/op/send_receive.hpp>
#include <weft/op/softmax.hpp>
#include <weft/op/swiglu.hpp>
#include <weft/op/take.hpp>
#include <weft/op/to_host.hpp>
#include <weft/op/view.hpp>
#include <weft/optim/adamw.hpp>
#include <weft/optim/schedule.hpp>
#include <weft/parallel/launch.hpp>
#include <weft/parallel/parameter_store.hpp>
#include <weft/parallel/pipeline.hpp>
#include <weft/train/generate.hpp>
#include <weft/train/trainer.hpp>
