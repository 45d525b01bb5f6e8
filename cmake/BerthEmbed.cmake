# berth_embed(TARGET SYMBOL FILE): puts the bytes of FILE into TARGET as
#   extern "C" const unsigned char SYMBOL[]; extern "C" const unsigned char SYMBOL_end[];
# by the assembler's .incbin, which costs no compile time however large the file is.
function(berth_embed target symbol file)
  set(assembly "${CMAKE_CURRENT_BINARY_DIR}/${symbol}.S")
  file(WRITE "${assembly}.in" "\
    .section .rodata\n\
    .global ${symbol}\n    .global ${symbol}_end\n    .hidden ${symbol}\n    .hidden ${symbol}_end\n    .balign 16\n\
${symbol}:\n    .incbin \"${file}\"\n${symbol}_end:\n    .byte 0\n\
    .section .note.GNU-stack,\"\",%progbits\n")
  configure_file("${assembly}.in" "${assembly}" COPYONLY)
  set_source_files_properties("${assembly}" PROPERTIES OBJECT_DEPENDS "${file}")
  target_sources(${target} PRIVATE "${assembly}")
endfunction()
