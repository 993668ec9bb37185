// What fused.linear does besides its products, and sums over rows for all kernels.

// y (rows, width) += bias, then max(y, 0) with `relu`. One thread an element.

extern "C" __global__ void bias_relu(
    float* __restrict__ y, const float* __restrict__ bias,
    int count, int width, int relu)
{
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= count) return;
    const float sum = y[e] + bias[e % width];
    y[e] = relu && sum < 0 ? 0 : sum;  // NaN stays
}

// The gradient before a ReLU whose result was y: g where y > 0. gx may be g.

extern "C" __global__ void relu_backward(
    const float* g, const float* __restrict__ y, float* gx, int count)
{
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e < count) gx[e] = y[e] > 0 ? g[e] : 0;
}

// matrix (rows, columns) -> the sums of its columns, for each slice of its rows by
// itself. A block takes 32 columns of a slice, a column a lane; the slices' blocks come
// one after the other. Its warps take the rows in turn; then the first warp adds up
// their sums, in order. The first `width` columns go to a, the others to b, each slice
// to a row of its own; with `add` they are added to what is there.

extern "C" __global__ void column_sums(
    const float* __restrict__ matrix, float* a, float* b,
    int rows, int columns, int width, int slices, int add)
{
    extern __shared__ float shared[];  // (warps, 32)
    const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP, across = (columns + WARP - 1) / WARP;
    const int slice = blockIdx.x / across;
    const int column = blockIdx.x % across * WARP + lane;
    const int height = (rows + slices - 1) / slices;
    const int first = slice * height, end = first + height;
    const int last = end < rows ? end : rows;
    float sum = 0;
    if (column < columns)
        for (int row = first + warp; row < last; row += warps)
            sum += matrix[(size_t)row * columns + column];
    shared[warp * WARP + lane] = sum;
    __syncthreads();
    if (warp == 0 && column < columns) {
        for (int w = 1; w < warps; w++) sum += shared[w * WARP + lane];
        float* to = (column < width ? a : b) + (size_t)slice * width + column % width;
        *to = add ? *to + sum : sum;
    }
}
