// fused.attention: w = softmax(q k^T / sqrt(K)),  out = w v, for every example and head
// by itself.
//
// qkv (B, R, H * (2K + V)), where each head's q|k|v lie side by side; out (B, Q, H *
// V): the first Q rows ask, all R answer; weights (B, H, Q, R), which backward needs.
// scale = 1 / sqrt(K).
//
// One block an example and head. Its rows of q|k|v go into shared memory once, `pitch`
// floats apart: 2K + V made odd, so that the entries of a column lie in different
// banks. A warp makes a row of weights, a thread the entries lane, lane + 32, ...; then
// a thread makes an entry of out.

__device__ void load_rows(
    const float* from, float* to, int rows, int columns, int stride, int pitch)
{
    for (int e = threadIdx.x; e < rows * columns; e += blockDim.x) {
        const int r = e / columns, c = e % columns;
        to[r * pitch + c] = from[(size_t)r * stride + c];
    }
}

__device__ float dot(const float* a, const float* b, int count)
{
    float sum = 0;
    for (int c = 0; c < count; c++) sum += a[c] * b[c];
    return sum;
}

extern "C" __global__ void attention_forward(
    const float* __restrict__ qkv, float* __restrict__ out,
    float* __restrict__ weights,
    int heads, int rows, int queries, int key_size, int value_size, float scale)
{
    extern __shared__ float shared[];
    const int columns = 2 * key_size + value_size, pitch = columns | 1;
    const int example = blockIdx.x / heads, head = blockIdx.x % heads;
    const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    float *q = shared, *k = q + key_size, *v = k + key_size;  // (R, pitch)
    float* w = shared + rows * pitch;                         // (Q, R)
    const size_t start = ((size_t)example * rows * heads + head) * columns;
    load_rows(qkv + start, q, rows, columns, heads * columns, pitch);
    __syncthreads();

    for (int i = warp; i < queries; i += warps) {
        float top = -INFINITE, total = 0;
        for (int j = lane; j < rows; j += WARP) {
            const float score = dot(q + i * pitch, k + j * pitch, key_size) * scale;
            w[i * rows + j] = score;
            top = fmaxf(top, score);
        }
        top = warp_max(top);
        for (int j = lane; j < rows; j += WARP)
            total += w[i * rows + j] = expf(w[i * rows + j] - top);
        total = warp_sum(total);
        for (int j = lane; j < rows; j += WARP) {
            w[i * rows + j] /= total;
            weights[((size_t)blockIdx.x * queries + i) * rows + j] = w[i * rows + j];
        }
    }
    __syncthreads();

    out += ((size_t)example * queries * heads + head) * value_size;
    for (int e = threadIdx.x; e < queries * value_size; e += blockDim.x) {
        const int i = e / value_size, c = e % value_size;
        float sum = 0;
        for (int j = 0; j < rows; j++) sum += w[i * rows + j] * v[j * pitch + c];
        out[(size_t)i * heads * value_size + c] = sum;
    }
}

// gv = w^T g;  gw = w * (g v^T - sum over keys of w * (g v^T)) * scale;
// gq = gw k, zero for rows that did not ask;  gk = gw^T q.
// g (B, Q, H * V), gqkv like qkv, written whole. The same blocks; gw takes the place of
// w in shared memory once w has been used.

extern "C" __global__ void attention_backward(
    const float* __restrict__ g, const float* __restrict__ qkv,
    const float* __restrict__ weights, float* __restrict__ gqkv,
    int heads, int rows, int queries, int key_size, int value_size, float scale)
{
    extern __shared__ float shared[];
    const int columns = 2 * key_size + value_size;
    const int pitch = columns | 1, gpitch = value_size | 1;
    const int example = blockIdx.x / heads, head = blockIdx.x % heads;
    const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    const float *q = shared, *k = q + key_size, *v = k + key_size;  // (R, pitch)
    float* w = shared + rows * pitch;                               // (Q, R)
    float* gout = w + queries * rows;                               // (Q, gpitch)
    const size_t start = ((size_t)example * rows * heads + head) * columns;
    load_rows(qkv + start, shared, rows, columns, heads * columns, pitch);
    const size_t first = (size_t)blockIdx.x * queries * rows;
    load_rows(weights + first, w, queries, rows, rows, rows);
    g += ((size_t)example * queries * heads + head) * value_size;
    load_rows(g, gout, queries, value_size, heads * value_size, gpitch);
    gqkv += start;
    __syncthreads();

    for (int e = threadIdx.x; e < rows * value_size; e += blockDim.x) {
        const int j = e / value_size, c = e % value_size;
        float sum = 0;
        for (int i = 0; i < queries; i++) sum += w[i * rows + j] * gout[i * gpitch + c];
        gqkv[(size_t)j * heads * columns + 2 * key_size + c] = sum;
    }
    __syncthreads();

    for (int i = warp; i < queries; i += warps) {
        const float* gi = gout + i * gpitch;
        float total = 0;
        for (int j = lane; j < rows; j += WARP)
            total += dot(gi, v + j * pitch, value_size) * w[i * rows + j];
        total = warp_sum(total);
        for (int j = lane; j < rows; j += WARP) {
            const float gw = dot(gi, v + j * pitch, value_size);
            w[i * rows + j] *= (gw - total) * scale;
        }
    }
    __syncthreads();

    for (int e = threadIdx.x; e < rows * 2 * key_size; e += blockDim.x) {
        const int r = e / (2 * key_size), c = e % (2 * key_size);
        float sum = 0;
        if (c >= key_size)
            for (int i = 0; i < queries; i++)
                sum += w[i * rows + r] * q[i * pitch + c - key_size];
        else if (r < queries)
            for (int j = 0; j < rows; j++) sum += w[r * rows + j] * k[j * pitch + c];
        gqkv[(size_t)r * heads * columns + c] = sum;
    }
}
