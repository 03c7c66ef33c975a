# Where the sanitizers can find something: what they are asked for in every run; WEFT_TEST_ALL asks for all tests.
if(WEFT_SANITIZE MATCHES "thread")
  # What threads share: communicators, teams, queues, lifetimes, labels, launches, and training on eight ranks at once.
  set(asked "^comm/" "^backend/(team|late_law|memory_law)_" "^tensor/" "^laws/late_" "^train/late_"
    "^parallel/(eight_ranks|ended_launch|labels|launch|schedule_faults|started_ranks|step_on_queue)_")
  set(skipped "^comm/laws_")  # of what judges communicators, not of one
else()
  # Operators, autograd, files, stores and pipelines, and of the rest every second unit.
  set(asked "^(autograd|io|laws|op|tensor)/" "^parallel/(buckets|ended_launch|pipeline|split_units|store_states|units|virtual_stages)_")
  set(skipped "^(allocation|golden|matrix|plan)/|^comm/laws_|/[a-z]+_memory_")  # they count bytes, or compare numbers alone
endif()

set(taken "")
set(number 1)
foreach(source IN LISTS cpp_tests)
  set(take OFF)
  foreach(pattern IN LISTS asked)
    if(source MATCHES "${pattern}" AND NOT source MATCHES "${skipped}")
      set(take ON)
    endif()
  endforeach()
  if(NOT take AND NOT WEFT_SANITIZE MATCHES "thread" AND NOT source MATCHES "${skipped}")
    math(EXPR number "(${number} + 1) % 2")
    if(number)
      set(take ON)
    endif()
  endif()
  if(take)
    list(APPEND taken "${source}")
  endif()
endforeach()
set(cpp_tests ${taken})
