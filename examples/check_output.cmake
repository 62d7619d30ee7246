# Runs PROGRAM and compares what it prints with the file EXPECTED; keeps it as ACTUAL.

execute_process(COMMAND ${PROGRAM} OUTPUT_FILE ${ACTUAL} RESULT_VARIABLE exit_code)
if(NOT exit_code EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} failed: ${exit_code}")
endif()

execute_process(COMMAND diff -u ${EXPECTED} ${ACTUAL} RESULT_VARIABLE differs)
if(NOT differs EQUAL 0)
  message(FATAL_ERROR "The output differs from ${EXPECTED} (see above). If that is intended:\n"
                      "  cp ${ACTUAL} ${EXPECTED}")
endif()
