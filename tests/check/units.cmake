# Which units a build takes; WEFT_TEST_ALL asks for all of them.

# Sets `out` to those of `sources` that match `asked`, and of the rest every of_the_rest-th; never those that match `skipped`.
function(weft_choose_units out sources asked skipped of_the_rest)
  set(taken "")
  set(number 0)
  foreach(source IN LISTS sources)
    if(source MATCHES "${skipped}")
      continue()
    endif()
    set(take OFF)
    if(source MATCHES "${asked}")
      set(take ON)
    elseif(of_the_rest)
      math(EXPR number "(${number} + 1) % ${of_the_rest}")
      if(number EQUAL 0)
        set(take ON)
      endif()
    endif()
    if(take)
      list(APPEND taken "${source}")
    endif()
  endforeach()
  set(${out} "${taken}" PARENT_SCOPE)
endfunction()

# What threads share: communicators, teams, queues, lifetimes, labels, launches, and training on eight ranks at once; of what judges
# communicators the laws judge one.
set(thread_units "^(comm|tensor)/|^backend/(team|late_law|memory_law)_|^(laws|train)/late_|^parallel/(eight_ranks|ended_launch|labels|launch|schedule_faults|started_ranks|step_on_queue)_")
# Operators, autograd, files, stores and pipelines, and of the rest every second unit, but for those that count bytes or compare
# numbers alone, of the largest, whose parts have tests here of their own, and train/resumed_, which call each other.
set(address_units "^(autograd|io|laws|op|tensor)/|^parallel/(buckets|ended_launch|pipeline|split_units|store_states|units|virtual_stages)_")
set(not_address_units "^(allocation|golden|matrix|plan|pretrained)/|^comm/laws_|^train/(cuda_((state|inputs)_)?on_host|resumed)_|/[a-z]+_memory_")
# What depends most on the code that g++ makes: kernels, communicators, numbers beside PyTorch's, whole models among them; and of the
# rest, which clang compiles, every eighth unit, but of those that train models, the longest to compile, few. laws/ranks: other units
# of its folder call it. Of io, nn and consistency those that train many models are left to clang, too.
set(release_units "^(backend|comm|core|golden|optim|policy|tensor)/|^laws/ranks_|^op/hard_numbers_|^parallel/(gpt2|launch)_|^train/overflow_")
set(not_release_units "^(consistency|matrix|plan|pretrained)/|^parallel/|^train/|^io/weights_|^nn/(adapter_dropout|documents|fused_qkv|kv_cache|quantised|shared_kv)_")
# Minutes of nvcc for what is skipped where there is no GPU.
set(gpu_units "^train/cuda_|/ranks_test[.]cu$")
# Of what is run on the device on the host those of seconds, and every kernel's law, in one type.
set(units_without_gpu "^backend/cuda/(attention_warpgroup(_documents)?|mlp|formulas|laws|sort|st(ep|ream)_graph)_test[.]cu$")
set_source_files_properties("${here}/backend/cuda/laws_test.cu" PROPERTIES COMPILE_DEFINITIONS WEFT_TEST_ONE_TYPE)

if(WEFT_SANITIZE MATCHES "thread")
  weft_choose_units(cpp_tests "${cpp_tests}" "${thread_units}" "^comm/laws_" 0)
elseif(WEFT_SANITIZE)
  weft_choose_units(cpp_tests "${cpp_tests}" "${address_units}" "${not_address_units}" 2)
elseif(WEFT_TEST_PART STREQUAL "rest")
  weft_choose_units(asked "${cpp_tests}" "${release_units}" "^$" 0)
  weft_choose_units(sampled "${cpp_tests}" "^$" "${release_units}|${not_release_units}" 8)
  set(cpp_tests ${asked} ${sampled})
elseif(WEFT_TEST_PART MATCHES "^units")
  # `rest` has those that are slow without optimisation.
  set(all "${cpp_tests}")
  set(left "^(backend|comm)/")
  if(WEFT_TEST_COMPILED)  # whose kernels' errors are judged where it is made
    string(APPEND left "|^golden/errors_")
  endif()
  weft_choose_units(cpp_tests "${all}" "." "${left}" 0)
  if(WEFT_TEST_PART STREQUAL "units beside asan")
    # What AddressSanitizer takes isn't compiled twice, but for what it takes a sample of.
    weft_choose_units(sanitized "${all}" "${address_units}" "${not_address_units}" 2)
    foreach(source IN LISTS sanitized)
      file(STRINGS "${here}/${source}" samples REGEX "(\"|/)(sample|ranks|gradients|equals_serial)[.]hpp" LIMIT_COUNT 1)
      if(NOT samples AND NOT source MATCHES "^laws/ranks_")
        list(REMOVE_ITEM cpp_tests "${source}")
      endif()
    endforeach()
  endif()
endif()
