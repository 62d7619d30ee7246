# Compiles headers that nearly all of some targets include once for all of them. Only with g++: clang++, used
# for the sanitizers, compiles each source alone, which shows that it includes what it needs.
#
# weir_precompile(NAME HEADERS <string>... TARGETS engine_tests... LIBRARIES GTest::gmock)
function(weir_precompile NAME)
  cmake_parse_arguments(ARG "" "" "HEADERS;TARGETS;LIBRARIES" ${ARGN})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  set(SOURCE ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.cc)
  file(GENERATE OUTPUT ${SOURCE} CONTENT "")
  add_library(${NAME} OBJECT ${SOURCE})
  target_link_libraries(${NAME} PRIVATE ${ARG_LIBRARIES})
  target_precompile_headers(${NAME} PRIVATE ${ARG_HEADERS})
  foreach(TARGET ${ARG_TARGETS})
    target_precompile_headers(${TARGET} REUSE_FROM ${NAME})
  endforeach()
  # The first option is required by ccache. The others: g++ 12 reports false warnings in its own std::string,
  # which it suppresses only while it knows that they are in a system header.
  foreach(TARGET ${NAME} ${ARG_TARGETS})
    target_compile_options(${TARGET} PRIVATE -fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow
      -Wno-stringop-overread -Wno-restrict)
  endforeach()
endfunction()

# All targets of FOLDER and below it that are linked to LIBRARY.
function(weir_targets_linked_to LIBRARY FOLDER RESULT)
  get_property(TARGETS DIRECTORY ${FOLDER} PROPERTY BUILDSYSTEM_TARGETS)
  set(FOUND)
  foreach(TARGET ${TARGETS})
    get_target_property(LINKED ${TARGET} LINK_LIBRARIES)
    if(LIBRARY IN_LIST LINKED)
      list(APPEND FOUND ${TARGET})
    endif()
  endforeach()
  get_property(FOLDERS DIRECTORY ${FOLDER} PROPERTY SUBDIRECTORIES)
  foreach(EACH ${FOLDERS})
    weir_targets_linked_to(${LIBRARY} ${EACH} MORE)
    list(APPEND FOUND ${MORE})
  endforeach()
  set(${RESULT} ${FOUND} PARENT_SCOPE)
endfunction()
