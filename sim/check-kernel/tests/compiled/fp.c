// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Recursion, calls by pointer, a stack that grows.

typedef unsigned u32; typedef unsigned long u64;
#define K __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(1,256)))
#define NI __attribute__((noinline))
static inline u32 tid(void){ return __builtin_amdgcn_workgroup_id_x()*__builtin_amdgcn_workgroup_size_x()+__builtin_amdgcn_workitem_id_x(); }
NI u32 fib(u32 n){ if(n<2) return n; return fib(n-1)+fib(n-2); }
NI u32 ack(u32 m,u32 n){ if(m==0) return n+1; if(n==0) return ack(m-1,1); return ack(m-1,ack(m,n-1)); }
NI u32 f0(u32 x){return x*3+1;} NI u32 f1(u32 x){return x^0x55;} NI u32 f2(u32 x){return x-7;} NI u32 f3(u32 x){return (x<<3)|(x>>29);}
typedef u32 (*fn)(u32);
static fn const tab[4]={f0,f1,f2,f3};
NI u32 vla(u32 n){ volatile u32 a[n]; for(u32 i=0;i<n;i++) a[i]=i*i; u32 s=0; for(u32 i=0;i<n;i++) s+=a[n-1-i]; return s; }
K void kfib(__attribute__((address_space(1))) u32*o){ u32 i=tid(); o[i]=fib(i%12)+1000*ack(2,i%5); }
K void kptr(__attribute__((address_space(1))) u32*o){ u32 i=tid(); u32 v=i; for(u32 k=0;k<6;k++) v=tab[(i+k*(i>>2))&3](v); o[i]=v; }
K void kvla(__attribute__((address_space(1))) u32*o){ u32 i=tid(); o[i]=vla(1+i%29)+vla(3); }
