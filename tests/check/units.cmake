# Which units a build takes: WEFT_TEST_ALL asks for all of them, and so does a build that stands alone
# (WEFT_TEST_PART empty).
if(WEFT_SANITIZE MATCHES "thread")
  # What threads share: communicators, teams, queues, lifetimes, labels, launches, and training on eight ranks at once.
  set(asked "^comm/" "^backend/(team|late_law|memory_law)_" "^tensor/" "^laws/late_" "^train/late_"
    "^parallel/(eight_ranks|ended_launch|labels|launch|schedule_faults|started_ranks|step_on_queue)_")
  set(skipped "^comm/laws_")  # of what judges communicators, not of one
  set(of_the_rest 0)
elseif(WEFT_SANITIZE)
  # Operators, autograd, files, stores and pipelines, and of the rest every second unit.
  set(asked "^(autograd|io|laws|op|tensor)/" "^parallel/(buckets|ended_launch|pipeline|split_units|store_states|units|virtual_stages)_")
  set(skipped "^(allocation|golden|matrix|plan)/|^comm/laws_|/[a-z]+_memory_")  # they count bytes, or compare numbers alone
  set(of_the_rest 2)
elseif(WEFT_TEST_PART STREQUAL "rest")
  # By the release build's compiler what depends most on its code, kernels, communicators, numbers beside PyTorch's; and of the rest,
  # which the preset `units` compiles by clang, every sixth unit.
  set(asked "^(backend|comm|core|golden|optim|policy|tensor)/" "^laws/ranks_")  # the last: other units of its folder call it
  set(skipped "^$")
  set(of_the_rest 6)
elseif(WEFT_TEST_PART STREQUAL "units")
  set(asked "")
  set(skipped "^(backend|comm)/")  # slow without optimisation; `rest` has them
  set(of_the_rest 1)
else()
  set(asked "")
  set(skipped "^$")
  set(of_the_rest 1)
endif()

set(taken "")
set(number 0)
foreach(source IN LISTS cpp_tests)
  if(source MATCHES "${skipped}")
    continue()
  endif()
  set(take OFF)
  foreach(pattern IN LISTS asked)
    if(source MATCHES "${pattern}")
      set(take ON)
    endif()
  endforeach()
  if(NOT take AND of_the_rest)
    math(EXPR number "(${number} + 1) % ${of_the_rest}")
    if(number EQUAL 0)
      set(take ON)
    endif()
  endif()
  if(take)
    list(APPEND taken "${source}")
  endif()
endforeach()
set(cpp_tests ${taken})
