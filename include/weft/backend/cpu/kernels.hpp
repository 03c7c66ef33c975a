// Every fused kernel of the CPU backend.
#pragma once

#include <weft/backend/cpu/adamw.hpp>
#include <weft/backend/cpu/add_norm.hpp>
#include <weft/backend/cpu/attention.hpp>
#include <weft/backend/cpu/attention_backward.hpp>
#include <weft/backend/cpu/broadcast.hpp>
#include <weft/backend/cpu/choose_tokens.hpp>
#include <weft/backend/cpu/copy.hpp>
#include <weft/backend/cpu/cross_entropy.hpp>
#include <weft/backend/cpu/dequantise.hpp>
#include <weft/backend/cpu/dropout.hpp>
#include <weft/backend/cpu/each_row.hpp>
#include <weft/backend/cpu/elementwise.hpp>
#include <weft/backend/cpu/embedding.hpp>
#include <weft/backend/cpu/layer_norm.hpp>
#include <weft/backend/cpu/normal.hpp>
#include <weft/backend/cpu/reduce.hpp>
#include <weft/backend/cpu/rms_norm.hpp>
#include <weft/backend/cpu/rope.hpp>
#include <weft/backend/cpu/softmax.hpp>
#include <weft/backend/cpu/statistics.hpp>
#include <weft/backend/cpu/swiglu.hpp>
