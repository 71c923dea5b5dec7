# Writes a file's text as a C array: cmake -DFROM=a.h -DTO=b.c -DNAME=symbol -DHEADER=its.h -P embed.cmake
file(READ "${FROM}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
# As characters: 0xe2 does not fit where they have a sign.
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE "${TO}" "#include \"${HEADER}\"\n\nconst char ${NAME}[] = {\n${bytes}\n0};\n")
