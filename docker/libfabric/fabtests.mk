# The measuring programs of libfabric's fabtests (fi_rma_bw, fi_rdm_pingpong, …), compiled directly: fabtests' own
# autogen and configure take longer than the programs do. OUT and PREFIX come from build.sh.

FABTESTS := source/fabtests
COMMON := shared hmem hmem_cuda hmem_rocr hmem_ze hmem_neuron hmem_synapseai ofi_atomic
PROGRAMS := $(filter-out benchmark_shared,$(basename $(notdir $(wildcard $(FABTESTS)/benchmarks/*.c))))
BIN := $(OUT)$(PREFIX)/bin
LIB := $(OUT)$(PREFIX)/lib

FLAGS := -O2 -DNDEBUG -D_GNU_SOURCE -DHAVE_CONFIG_H -DCONFIG_PATH='"$(PREFIX)/share/fabtests"' -w \
	-Itests -I$(FABTESTS)/include -I$(OUT)$(PREFIX)/include
LINK := -L$(LIB) -Wl,-rpath,$(PREFIX)/lib -Wl,-rpath-link,$(LIB) -lfabric -lpthread

all: $(PROGRAMS:%=$(BIN)/fi_%)

tests/config.h:
	mkdir -p tests
	printf '#define %s\n' 'HAVE_CLOCK_GETTIME 1' 'HAVE_EPOLL 1' 'HAVE___INT128 1' 'HAVE_CUDA_RUNTIME_H 0' \
		'HAVE_CUDA_DMABUF 0' 'HAVE_ZE 0' 'ENABLE_DEBUG 0' > $@

tests/%.o: $(FABTESTS)/common/%.c tests/config.h
	gcc $(FLAGS) -c $< -o $@

tests/%.o: $(FABTESTS)/benchmarks/%.c tests/config.h
	gcc $(FLAGS) -c $< -o $@

$(BIN)/fi_%: tests/%.o tests/benchmark_shared.o $(COMMON:%=tests/%.o)
	gcc $^ -o $@ $(LINK)

.PHONY: all
.SECONDARY:
