module github.com/quorate/quorate/tools/buf

go 1.26.0
