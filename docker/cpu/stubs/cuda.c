/* libcuda.so.1: a stand-in for CUDA's driver on machines without a GPU. Every call says that there is no device.
 *
 * NIXL's LIBFABRIC plugin is linked with the driver, so that without this file it can't be loaded at all. The file is
 * then found by others that look for a driver, UCX's CUDA transport first of all: it has every function that a library
 * of the image refers to, so that they hear "no device" instead of being ended by the loader at a missing symbol.
 *
 * Arguments don't matter: the calling conventions in use let a callee ignore them.
 */

enum { CUDA_ERROR_NO_DEVICE = 100 };

#define NO_DEVICE(name) \
    int name(void); \
    int name(void) { return CUDA_ERROR_NO_DEVICE; }

NO_DEVICE(cuInit)
NO_DEVICE(cuGetProcAddress_v2)

NO_DEVICE(cuDeviceGet)
NO_DEVICE(cuDeviceGetAttribute)
NO_DEVICE(cuDeviceGetName)
NO_DEVICE(cuDeviceGetPCIBusId)
NO_DEVICE(cuDeviceGetUuid_v2)
NO_DEVICE(cuDevicePrimaryCtxGetState)
NO_DEVICE(cuDevicePrimaryCtxRelease_v2)
NO_DEVICE(cuDevicePrimaryCtxRetain)
NO_DEVICE(cuDeviceTotalMem_v2)

NO_DEVICE(cuCtxGetCurrent)
NO_DEVICE(cuCtxGetDevice)
NO_DEVICE(cuCtxGetId)
NO_DEVICE(cuCtxPopCurrent_v2)
NO_DEVICE(cuCtxPushCurrent_v2)
NO_DEVICE(cuCtxSetCurrent)

NO_DEVICE(cuEventCreate)
NO_DEVICE(cuEventDestroy_v2)
NO_DEVICE(cuEventQuery)
NO_DEVICE(cuEventRecord)
NO_DEVICE(cuStreamAddCallback)
NO_DEVICE(cuStreamCreate)
NO_DEVICE(cuStreamDestroy_v2)
NO_DEVICE(cuStreamSynchronize)

NO_DEVICE(cuIpcCloseMemHandle)
NO_DEVICE(cuIpcGetMemHandle)
NO_DEVICE(cuIpcOpenMemHandle_v2)

NO_DEVICE(cuMemAddressFree)
NO_DEVICE(cuMemAddressReserve)
NO_DEVICE(cuMemAllocManaged)
NO_DEVICE(cuMemAlloc_v2)
NO_DEVICE(cuMemCreate)
NO_DEVICE(cuMemExportToShareableHandle)
NO_DEVICE(cuMemFree_v2)
NO_DEVICE(cuMemGetAddressRange_v2)
NO_DEVICE(cuMemGetAllocationGranularity)
NO_DEVICE(cuMemGetAllocationPropertiesFromHandle)
NO_DEVICE(cuMemHostGetDevicePointer_v2)
NO_DEVICE(cuMemHostRegister_v2)
NO_DEVICE(cuMemHostUnregister)
NO_DEVICE(cuMemImportFromShareableHandle)
NO_DEVICE(cuMemMap)
NO_DEVICE(cuMemPoolDestroy)
NO_DEVICE(cuMemPoolExportPointer)
NO_DEVICE(cuMemPoolExportToShareableHandle)
NO_DEVICE(cuMemPoolImportFromShareableHandle)
NO_DEVICE(cuMemPoolImportPointer)
NO_DEVICE(cuMemPoolSetAccess)
NO_DEVICE(cuMemRangeGetAttribute)
NO_DEVICE(cuMemRelease)
NO_DEVICE(cuMemRetainAllocationHandle)
NO_DEVICE(cuMemSetAccess)
NO_DEVICE(cuMemUnmap)
NO_DEVICE(cuMemcpyAsync)
NO_DEVICE(cuMemcpyDtoDAsync_v2)
NO_DEVICE(cuMemcpyHtoD_v2)
NO_DEVICE(cuMemsetD8_v2)
NO_DEVICE(cuPointerGetAttribute)
NO_DEVICE(cuPointerGetAttributes)
NO_DEVICE(cuPointerSetAttribute)

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
    if (count)
        *count = 0;
    return CUDA_ERROR_NO_DEVICE;
}

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    if (version)
        *version = 0;
    return 0;
}

int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text)
{
    (void)error;
    if (text)
        *text = "no CUDA device: this image has a stand-in for CUDA's driver";
    return 0;
}
