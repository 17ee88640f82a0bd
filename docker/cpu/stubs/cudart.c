/* libcudart.so.13: a stand-in for CUDA's runtime on machines without a GPU. Every call says that there is no device.
 *
 * See cuda.c: here are the functions of the runtime that NIXL's and UCX's libraries refer to.
 */

enum { cudaErrorNoDevice = 100 };

#define NO_DEVICE(name) \
    int name(void); \
    int name(void) { return cudaErrorNoDevice; }

NO_DEVICE(cudaDeviceGetAttribute)
NO_DEVICE(cudaDeviceGetByPCIBusId)
NO_DEVICE(cudaDeviceGetPCIBusId)
NO_DEVICE(cudaDeviceSynchronize)
NO_DEVICE(cudaFree)
NO_DEVICE(cudaFreeHost)
NO_DEVICE(cudaFuncSetAttribute)
NO_DEVICE(cudaGetDevice)
NO_DEVICE(cudaGetLastError)
NO_DEVICE(cudaGetSymbolSize)
NO_DEVICE(cudaHostAlloc)
NO_DEVICE(cudaHostGetDevicePointer)
NO_DEVICE(cudaIpcCloseMemHandle)
NO_DEVICE(cudaIpcGetMemHandle)
NO_DEVICE(cudaIpcOpenMemHandle)
NO_DEVICE(cudaLaunchKernelExC)
NO_DEVICE(cudaMalloc)
NO_DEVICE(cudaMallocManaged)
NO_DEVICE(cudaMemcpy)
NO_DEVICE(cudaMemcpyAsync)
NO_DEVICE(cudaMemset)
NO_DEVICE(cudaMemsetAsync)
NO_DEVICE(cudaSetDevice)
NO_DEVICE(cudaStreamCreateWithFlags)
NO_DEVICE(cudaStreamDestroy)
NO_DEVICE(cudaStreamSynchronize)

int cudaGetDeviceCount(int *count);
int cudaGetDeviceCount(int *count)
{
    if (count)
        *count = 0;
    return cudaErrorNoDevice;
}

const char *cudaGetErrorString(int error);
const char *cudaGetErrorString(int error)
{
    (void)error;
    return "no CUDA device: this image has a stand-in for CUDA's runtime";
}
