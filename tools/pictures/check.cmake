# Draws the pictures with PROGRAM into the folder ACTUAL and compares it with the folder EXPECTED.

file(REMOVE_RECURSE ${ACTUAL})
file(MAKE_DIRECTORY ${ACTUAL})
execute_process(COMMAND ${PROGRAM} ${ACTUAL} RESULT_VARIABLE exit_code)
if(NOT exit_code EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} failed: ${exit_code}")
endif()

execute_process(COMMAND diff -rq ${EXPECTED} ${ACTUAL} RESULT_VARIABLE differs)
if(NOT differs EQUAL 0)
  message(FATAL_ERROR "The pictures in ${EXPECTED} are not what the core draws now (see above).\n"
                      "Draw them again with `make pictures`, look at them, and commit them.")
endif()
