"""What benchmarks/results keeps: by device and file, the command that measures it."""

# On a GPU max-autotune is left out: it tries kernels for minutes with each model.
WITH_COMPILE = "--arms eager compile compile-reduce-overhead lazuli lazuli+compile"
WITH_RIVALS = "--arms eager compile compile-max-autotune openvino onnxruntime lazuli"

STORED = {
    "cpu": {
        "models-cpu": "models --group small",
        "models-cpu-usual": f"models --group usual {WITH_RIVALS}",
        "models-cpu-first-steps": "models --cold-only --cold-rounds 5 --arms eager lazuli",
        "memory-cpu": "memory",
        "memory-cpu-attention": "memory --attention",
        "shapes-cpu": "shapes",
        "shapes-cpu-load": "shapes --load 2 --rounds 15 --arms eager lazuli",
        "programs-cpu": "programs",
        "kernels-cpu": "kernels",
        "libraries-cpu": "libraries",
        "decode-cpu": "decode",
        "dispatch-cpu": "dispatch",
        "host-cpu": "host",
        "start-cpu": "start",
    },
    "cuda": {
        "models-cuda": f"models --threads 8 --no-cold {WITH_COMPILE}",
        "models-cuda-first-steps": "models --cold-only",
        "kernels-cuda": "kernels",
        "host-cuda": "host --threads 8",
        "losses-cuda": "losses",
    },
}
